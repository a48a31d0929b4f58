"""A launch as parcels for a worker; the scores of the last one are packed once for all that are given them."""

from __future__ import annotations

import weakref

import torch

from workbench.engines.launch import Launch
from workbench.engines.worker.wire import Parcel, pack

# The scores that were packed last, as they were then: one batch is given to ops of many releases, and is copied once.
# One object, so that threads see all of it or nothing.
_last: tuple[weakref.ref[torch.Tensor], int, Parcel] | None = None


def parcel_of(scores: torch.Tensor) -> Parcel:
    """A parcel of scores; that of the last call where the tensor is the same and torch has not written to it since.

    Raises:
        OSError: there is no room for it.
    """
    global _last
    if scores.is_inference():  # torch does not count what is written to these
        return pack(scores)
    last = _last
    if last is not None and last[0]() is scores and last[1] == scores._version:
        return last[2]
    _last = last = None  # before the next one takes memory
    parcel = pack(scores)
    _last = (weakref.ref(scores, _forget), scores._version, parcel)
    return parcel


def _forget(tensor: weakref.ref[torch.Tensor]) -> None:
    global _last
    if _last is not None and _last[0] is tensor:
        _last = None


def parcels_of(launch: Launch) -> dict[str, Parcel]:
    """``scores``, ``lengths`` and, where a row starts elsewhere than at cell 0, ``starts``.

    Raises:
        OSError: there is no room for them.
    """
    given = {"scores": parcel_of(launch.scores), "lengths": pack(launch.lengths)}
    if launch.starts is not None and bool((launch.starts != 0).any()):
        given["starts"] = pack(launch.starts)
    return given
