"""Which path each row of a call takes, for an op, a release and a device, with every condition that decided it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.capture.row import Row
from workbench.errors import UsageError
from workbench.paths.conditions import Condition, Questions, RefusedError, Setup, UnknownFieldError
from workbench.paths.devices import get_device
from workbench.paths.ops import OPS, Op, get_op
from workbench.paths.plan import Plan
from workbench.paths.releases import parse_release
from workbench.rendering import Rendered
from workbench.words import listed

__all__ = ["OPS", "Op", "Route", "get_op", "route"]


@dataclass(frozen=True)
class Route(Rendered):
    """Where a row goes.

    Attributes:
        path, variant: their names; ``None`` where the route cannot be told or the op refuses the call.
        op, release, device: what was asked.
        reasons: every condition in the order it was tested.
        unknown: what decides and is not known: fields of the call or of the setup, or in words.
        refused: why the op does not take the call.
        calls: the op that an engine's own choice settles on; empty for other ops.
        plan: SGLang's plan for the call, where the op has one and the capture tells how many rows it had.
    """

    path: str | None
    variant: str | None
    op: str
    release: str
    device: str
    reasons: tuple[Condition, ...]
    unknown: tuple[str, ...] = ()
    refused: str = ""
    calls: str = ""
    plan: Plan | None = None


def route(
    row: Row,
    op: str | None = None,
    release: str | None = None,
    device: str | None = None,
    k: int | None = None,
    *,
    setup: Setup | None = None,
    static_threshold: int | None = None,
) -> Route:
    """The path that an op sends a row to.

    Args:
        row: the row, with its call. op, release, device, k: those of the call where not given.
        setup: how the engine was set up; its defaults where not given.
        static_threshold: what SGLang's plan is given, in place of the setup's.

    Returns:
        The route; its ``path`` is ``None`` where the capture does not say enough or the op refuses the call.

    Raises:
        UsageError: op, release or device is not given anywhere, or is not known; a setup that cannot be, or that the op
            does not depend on.
    """
    setup = Setup() if setup is None else setup
    if static_threshold is not None:
        setup = replace(setup, static_threshold=static_threshold)
    asked = {"op": op, "release": release, "device": device}
    given = {name: getattr(row.call, name) if one is None else one for name, one in asked.items()}
    absent = [name for name, value in given.items() if value is None]
    if absent:
        raise UsageError(
            f"the capture does not name {listed(absent)}; give {'it' if len(absent) == 1 else 'them'} "
            f"({', '.join(f'--{name}' for name in absent)}; on the command line, route --list shows the known ones)"
        )
    known_op = get_op(str(given["op"]))
    idle = [name for name in setup.given if name not in known_op.heeds]
    if idle:
        heed = [one.name for one in OPS if idle[0] in one.heeds]
        raise UsageError(
            f"{known_op.name} does not depend on {idle[0]}; {listed(heed)} {'does' if len(heed) == 1 else 'do'}"
        )
    known_release = parse_release(str(given["release"]), known_op.package)
    known_device = get_device(str(given["device"]))
    ask = Questions(row, k, setup)
    path = variant = None
    unknown: tuple[str, ...] = ()
    refused = ""
    try:
        if known_op.since:
            ask.require(
                known_op.in_release(known_release),
                f"release {known_release} ≥ {known_op.since}",
                f"{known_release} has no {known_op.name.split('.')[1]}",
            )
        path, variant = known_op.router(ask, known_release, known_device)
    except UnknownFieldError as field:
        unknown = (str(field),)
    except RefusedError as why:
        refused = str(why)
    return Route(
        path,
        variant,
        known_op.name,
        str(known_release),
        known_device.name,
        tuple(ask.asked),
        unknown,
        refused,
        ask.calls,
        ask.plan,
    )
