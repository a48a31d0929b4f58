"""How far apart colours are: contrast, and difference as seen with each kind of colour blindness."""

from __future__ import annotations

import numpy as np

# linear RGB as seen without red, green or blue cones (Machado, Oliveira and Fernandes 2009, severity 1)
SEEN = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = XYZ.sum(axis=1)


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""
    light = sorted(float(XYZ[1] @ linear(colour)) + 0.05 for colour in (one, other))
    return light[1] / light[0]


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(XYZ @ np.clip(seen @ linear(colour), 1e-3, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def apart(one: str, other: str) -> float:
    """The least difference of two colours in CIELAB, with and without each kind of colour blindness."""
    return min(float(np.linalg.norm(lab(one, seen) - lab(other, seen))) for seen in SEEN.values())
