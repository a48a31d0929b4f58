"""How many of a marked group survive when a uniformly random part of a population is kept."""

from __future__ import annotations

import torch


def survivors(population: int, marked: int, kept: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Distribution of the marked members among ``kept`` drawn without replacement from ``population``.

    Returns:
        The possible counts, int64 ascending, and their probabilities, float64.
    """
    low, high = max(0, marked + kept - population), min(marked, kept)
    counts = torch.arange(low, high + 1)
    mass = _log_choose(marked, counts) + _log_choose(population - marked, kept - counts)
    return counts, torch.softmax(mass, 0)


def all_survive(population: int, marked: int, kept: int) -> float:
    """Probability that every marked member is among the kept."""
    if marked > kept:
        return 0.0
    i = torch.arange(marked, dtype=torch.float64)
    return float(torch.exp(torch.sum(torch.log(kept - i) - torch.log(population - i))))


def _log_choose(n: int, k: torch.Tensor) -> torch.Tensor:
    def log_factorial(x: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(x.to(torch.float64) + 1)

    return log_factorial(torch.tensor(n)) - log_factorial(k) - log_factorial(n - k)
