"""The selector ops that a shared library registers, found by the op schemas that its bytes hold.

A library registers an op by a string such as ``persistent_topk(Tensor logits, …) -> ()``, which stands in it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from workbench.vendor.manifest import Registered

LONGEST = 4096  # bytes of a schema
DEEP_SELECT = "vllm.deep_select"

# Ops that libraries register and the vendor engine does not call, and why.
NOT_RUN = {
    DEEP_SELECT: "it takes GPUs of compute capability 10 alone, and was never observed",
    "sglang.deepseek_v4_topk_transform_512": "it was read in the source, and never observed",
}


@cache
def known_schemas() -> tuple[tuple[str, str, str], ...]:
    """(schema name, how its parameters begin, op) of the ops that ahead-of-time libraries register."""
    return tuple(_of_ops())


def _of_ops() -> Iterator[tuple[str, str, str]]:
    from workbench.paths.ops import OPS  # it brings torch, which reading the store does without

    for op in OPS:
        name = op.source.rpartition(".")[2]
        if (
            op.package in ("vllm", "sglang-kernel") and name.islower() and name != "topk"
        ):  # the others are classes that choose among ops
            yield name, "", op.name
    # DeepSelect within vLLM's wheels from 0.32.0: its name is too common to go by the name alone
    yield "topk", "Tensor input, int topk, Tensor? begin", DEEP_SELECT


_ARROWS = (b") ->", b")->")  # every schema has one, and little else in a library does: searched for first, it is quick
_TEXT = re.compile(rb"[ -~]*")
_SCHEMA = re.compile(r"(?:\w+::)?(?P<schema>(?P<name>\w+)\((?P<parameters>.*)\) ?-> ?.+)")


def find_schemas(pieces: Iterable[bytes]) -> tuple[Registered, ...]:
    """Every selector op whose schema stands in a library's bytes, which come in order; by name.

    A schema that lies across two pieces is found. Of several schemas of one op the first one counts.
    """
    found: dict[str, str] = {}
    text = b""
    for piece in pieces:
        text = text[-2 * LONGEST :] + piece  # whatever lay at the end is seen again with what follows it
        for schema in _schemas(text):
            found.setdefault(*schema)
    return tuple(Registered(op, found[op]) for op in sorted(found))


def _schemas(text: bytes) -> Iterator[tuple[str, str]]:
    """(op, schema) of the strings that a zero byte ends."""
    for arrow in _ARROWS:
        at = text.find(arrow)
        while at >= 0:
            end = text.find(b"\0", at, at + LONGEST)
            start = max(text.rfind(b"\0", max(at - LONGEST, 0), at) + 1, at - LONGEST, 0)
            if end >= 0 and _TEXT.fullmatch(text, start, end):
                yield from _known(text[start:end].decode())
            at = text.find(arrow, at + 1)


def _known(text: str) -> Iterator[tuple[str, str]]:
    if found := _SCHEMA.fullmatch(text):
        for name, beginning, op in known_schemas():
            if name == found["name"] and found["parameters"].startswith(beginning):
                yield op, found["schema"]
