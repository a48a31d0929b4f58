"""What is known of a path, as tables of texts: its contract and limits, the ops that take it, its variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.paths.reach import Reach, reaches, variants_by_release
from workbench.paths.spec import Determinism, Evidence, OutputOrdering, Path, TieBreak, Variant
from workbench.paths.walk import walk_of

if TYPE_CHECKING:
    import pandas as pd

_NONE = "–"
DETERMINISM = {
    Determinism.NOT_GUARANTEED: "which scores win may change from call to call",
    Determinism.RUN_TO_RUN: "the same scores win in every call on one GPU",
    Determinism.GPU_TO_GPU: "the same scores win in every call on any GPU",
}
TIE_BREAK = {
    TieBreak.UNSPECIFIED: "any of the equal scores at the cut",
    TieBreak.PREFER_SMALLER_INDEX: "of equal scores at the cut those of smaller index",
    TieBreak.PREFER_LARGER_INDEX: "of equal scores at the cut those of larger index",
}
ORDERING = {
    OutputOrdering.UNSORTED: "winners in any sequence",
    OutputOrdering.SORTED: "winners best first",
    OutputOrdering.STABLE_SORTED: "winners best first, equal ones by index",
}


def rests_on(variant: Variant) -> str:
    """What the description of a variant rests on, as the documentation says it."""
    modelled = "" if variant.modelled else "; no model"
    return ("observed" if variant.evidence is Evidence.OBSERVED else "described, not observed") + modelled


def losses(variant: Variant) -> str:
    """Whether a variant can lose winners, as the documentation says it."""
    return "keeps all" if variant.lossless else "can lose"


def contract_table(path: Path, variant: Variant) -> pd.DataFrame:
    """What a variant promises, in CUB's words, and what that means."""
    contract = variant.contract or path.contract
    return _facts(
        [
            ("determinism", f"{contract.determinism.value}: {DETERMINISM[contract.determinism]}"),
            ("tie_break", f"{contract.tie_break.value}: {TIE_BREAK[contract.tie_break]}"),
            ("output_ordering", f"{contract.output_ordering.value}: {ORDERING[contract.output_ordering]}"),
            ("NaN", contract.nan or _NONE),
        ]
    )


def limits_table(path: Path, variant: Variant) -> pd.DataFrame:
    """Which rows a variant takes, where it stands upstream, and how its threads walk a row."""
    own = path.as_variant(variant)
    walk = walk_of(own)
    reports = dict.fromkeys((*path.references, *variant.references))
    return _facts(
        [
            ("k", own.ks_in_words),
            ("length", own.lengths_in_words),
            ("dtype", ", ".join(own.dtypes)),
            ("device", _devices(path, variant)),
            ("walk", f"{walk.threads} threads a block, loads of {walk.load}"),
            ("source", path.source),
            ("releases", _releases(path, variant)),
            ("reports", ", ".join(reports) or _NONE),
        ]
    )


def _facts(pairs: list[tuple[str, str]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(pairs, columns=["of the path", "what is known"])


def _devices(path: Path, variant: Variant) -> str:
    """Where calls were found that an op sends to the path, as the variant where one does."""
    found = {call.device for reach in reaches(path, variant.name) or reaches(path) for call in reach.calls}
    return f"known to be taken on {', '.join(sorted(found))}" if found else f"none known: {path.unreached or _NONE}"


def _releases(path: Path, variant: Variant) -> str:
    """The releases of a path as its record tells them; of another of its variants those that are known to have it."""
    if variant is path.variants[0]:
        return path.releases
    found = [release for release, names in variants_by_release(path).items() if variant.name in names]
    return ", ".join(found) or f"none known has it as {variant.name}; the path: {path.releases}"


def ops_table(path: Path, variant: Variant | None = None) -> pd.DataFrame:
    """The ops that take a path, one line a kind of call: how many rows, which lengths, on the newest such release.

    Args:
        variant: that the calls take; ``None`` for every one of them, each on the newest release that has it.
    """
    import pandas as pd

    asked = path.variants if variant is None else (variant,)
    lines = [line for one in asked for reach in reaches(path, one.name) for line in _calls(reach)]
    if variant is None:
        known = {line[0] for line in lines}
        lines += [line for reach in reaches(path) if reach.op.name not in known for line in _calls(reach)]
    return pd.DataFrame(lines, columns=["op", "release", "device", "k", "rows of the call", "length", "variant"])


def ops_words(path: Path, variant: Variant) -> str:
    """What must be said of the ops that take a variant: of which release they are, or that none is known to."""
    if not reaches(path):
        return f"None: {path.unreached}."
    if not reaches(path, variant.name):
        return f"No release is known to take it as {variant.name}; the calls are those of the variants named with them."
    return f"Calls that take it as {variant.name}, on the newest release of each op that has it so."


def _calls(reach: Reach) -> list[tuple[str, str, str, str, str, str, str]]:
    if not reach.calls:
        return [(reach.op.name, reach.release, _NONE, _NONE, _NONE, "by no call that was asked", _NONE)]
    lines = []
    for call in reach.calls:
        device = f"{call.device}, {call.setup}" if call.setup else call.device
        narrow = f", width {call.width}" if call.width != reach.calls[0].width else ""
        length = f"{call.lengths_in_words}{narrow}"
        lines.append((reach.op.name, call.release, device, f"{call.k}", call.rows_in_words, length, call.variant))
    return lines


def variants_table(path: Path) -> pd.DataFrame:
    """Every variant of a path: what it is, whether it loses, what that rests on."""
    import pandas as pd

    return pd.DataFrame(
        [(one.name, losses(one), rests_on(one), one.note, ", ".join(one.references) or _NONE) for one in path.variants],
        columns=["variant", "losses", "rests on", "what it is", "reports"],
    )
