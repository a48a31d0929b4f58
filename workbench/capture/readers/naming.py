"""Which tensor is what: by the names that the caller gives, else by the names that dumps of selectors bear."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workbench.capture.foreign import Group, find_groups
from workbench.capture.format import INTS
from workbench.capture.readers.dump import Dump, Scope
from workbench.capture.values import brief
from workbench.errors import CaptureError, UsageError
from workbench.words import few, listed

# Role -> the names that mean it, in any case and with or without underscores: a tensor's whole name, or what stands
# behind its last dot or double underscore. Sources: the op schemas and indexers of vLLM and SGLang, FlashInfer's
# topk.py, tensors attached to public issues.
NAMES: dict[str, tuple[str, ...]] = {
    "scores": (
        "scores", "score", "logits", "index_scores", "index_score", "index_logits", "indexer_logits", "indexer_scores",
        "topk_logits", "score_rows",
    ),
    "lengths": (
        "lengths", "length", "lens", "seq_lens", "seq_len", "kv_lens", "kv_len", "context_lens", "cache_seqlens",
        "row_lengths", "pool_lens",
    ),
    "starts": ("starts", "row_starts", "cu_seqlen_ks"),
    "indices": ("indices", "topk_indices", "topk_ids", "topk_idx", "out_indices", "output_indices", "output"),
    "k": ("k", "topk", "top_k", "index_topk", "topk_tokens"),
}  # fmt: skip
WHOLE = ("output",)  # too common behind a dot
ROLES = ("lengths", "starts", "indices")
_OF_CALLS = ("layer", "step", "rank")
_SHOWN = 3
_LAST = re.compile(r"\.|__")
_CURE = "name them (scores=, lengths=, …; on the command line --scores, --lengths, …)"


@dataclass(frozen=True)
class Wanted:
    """What the caller gave: tensors by name, and k."""

    scores: str | None = None
    lengths: str | None = None
    starts: str | None = None
    indices: str | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        """Names of others without that of the scores: UsageError, since nothing says what they go with."""
        if self.scores is None and any(getattr(self, role) is not None for role in ROLES):
            raise UsageError(
                "tensors of a foreign file are named, but not its scores; name them too (scores=, --scores)"
            )


def resolve(dump: Dump, wanted: Wanted) -> tuple[list[Group], tuple[str, ...]]:
    """The tensors of each call, and notes in words.

    Once the scores are named, nothing is looked for by name: the other roles are as given. Integers that the dump
    states of a call hold in either case.

    Raises:
        CaptureError: no scores are known or named, several could be meant, or a named tensor is not there.
        UsageError: the names cannot be understood.
    """
    if wanted.scores is not None:
        return _named(dump, wanted, wanted.scores), ()
    table = {role: _plain((*names, *dump.extra.get(role, ()))) for role, names in NAMES.items()}
    groups: list[Group] = []
    refusals: list[str] = []
    found: dict[str, dict[str, None]] = {role: {} for role in ("scores", *ROLES)}
    plain = _plain_lengths(dump, table["lengths"])
    for scope in dump.scopes:
        scores = None if scope.quiet else _one(dump, "scores", table["scores"], scope.own, {})
        if scores is None:
            continue
        if scope.refusal:
            refusals.append(scope.refusal)
            continue
        names = {role: _one(dump, role, table[role], scope.own, scope.inherited) for role in ("lengths", "starts")}
        if names["lengths"] is None:
            _check_plain(dump, plain, scope.own[scores])
        names["indices"] = (
            _one(dump, "indices", table["indices"], scope.own, {}) if scope.indices is None else scope.indices or None
        )
        for role, name in {"scores": scores, **names}.items():
            if name is not None:
                found[role][name] = None
        places = {role: None if name is None else scope.get(name) for role, name in names.items()}
        mapped = None if names["indices"] is None else scope.mapped
        groups.append(Group(scope.own[scores], **places, ints=_ints(dump, scope, wanted), mapped=mapped))
    notes = []
    if not groups and dump.alone is not None:
        groups.append(Group(dump.alone))
        notes.append(f"the one tensor, {brief(dump.alone)!r}, is taken as the scores")
    elif not groups:
        raise _none(dump, refusals)
    else:
        said = (f"{role} {few(map(repr, map(brief, names)), _SHOWN)}" for role, names in found.items() if names)
        notes.append(f"found by name: {listed(said)}")
    if refusals:
        notes.append(f"{len(refusals)} further calls are left: {refusals[0]}")
    return groups, tuple(notes)


def _plain_lengths(dump: Dump, names: frozenset[str]) -> dict[str, str]:
    """Values besides tensors whose names mean lengths, by the place that they lie in."""
    found = {}
    if plain := [name for name in dump.plain if _means(name, names)]:
        found[""] = plain[0]
    for path in dump.values:
        name = path.rpartition(".")[0] if path.rpartition(".")[2].isdigit() else path
        if _means(name, names):
            found[name.rpartition(".")[0]] = name
    return found


def _check_plain(dump: Dump, plain: Mapping[str, str], scores: str) -> None:
    """Refuse to take rows at their full width where lengths are there, but as numbers of Python.

    Raises:
        CaptureError: it is so.
    """
    for place, name in plain.items():
        if not place or scores.startswith(f"{place}."):
            raise CaptureError(
                f"{brief(name)!r} would be the lengths, but is no tensor; save it as one (torch.tensor(…)), or name "
                "the scores alone to take rows at their full width (scores=, --scores)",
                file=dump.tensors.file,
            )


def means_k(name: str) -> bool:
    """Whether a name means k."""
    return _means(name, _K)


def _none(dump: Dump, refusals: list[str]) -> CaptureError:
    """Why no scores are known."""
    if refusals:
        return CaptureError(f"{refusals[0]}. It holds {dump.tensors.listed()}", file=dump.tensors.file)
    if not dump.tensors.tensors and dump.tensors.broken:
        return next(iter(dump.tensors.broken.values()))
    return CaptureError(
        "not a workbench capture, and nothing in it is called scores or logits; name its tensors (scores=, lengths=; "
        f"on the command line --scores, --lengths). It holds {dump.tensors.listed()}",
        file=dump.tensors.file,
    )


def _plain(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.replace("_", "") for name in names)


_WHOLE = _plain(WHOLE)
_K = _plain(NAMES["k"])


def _means(name: str, names: frozenset[str]) -> bool:
    last = _LAST.split(name)[-1].lower().replace("_", "")
    return name.lower().replace("_", "") in names or (last in names and last not in _WHOLE)


def _one(
    dump: Dump, role: str, names: frozenset[str], own: Mapping[str, str], inherited: Mapping[str, str]
) -> str | None:
    """The one tensor whose name means a role, the nearest ones first; ``None`` if there is none."""
    found = [name for name in own if _means(name, names)] or [name for name in inherited if _means(name, names)]
    if len(found) > 1:
        raise CaptureError(
            f"{few(map(repr, map(brief, sorted(found))), _SHOWN)} could each be the {role}; {_CURE}. "
            f"It holds {dump.tensors.listed()}",
            file=dump.tensors.file,
        )
    return found[0] if found else None


def _ints(dump: Dump, scope: Scope, wanted: Wanted) -> dict[str, int]:
    """What is known of a call; k by any of its names, as a number or as a tensor of one.

    Raises:
        CaptureError: several k.
    """
    known = {name: value for name, value in scope.ints.items() if name in _OF_CALLS}
    if wanted.k is not None:
        return known
    ks = {value for name, value in scope.ints.items() if _means(name, _K)}
    for name, full in {**scope.inherited, **scope.own}.items():
        if _means(name, _K) and full in dump.tensors.tensors:
            source, info = dump.tensors.get(full)
            if info.dtype in INTS and not info.problem and info.shape in ((), (1,)):
                ks.add(int(source.tensor(info)[0]))
    if len(ks) > 1:
        raise CaptureError(f"k is {listed(sorted(ks), 'or')}; give it (k=, --k)", file=dump.tensors.file)
    return {**known, "k": ks.pop()} if ks else known


def _named(dump: Dump, wanted: Wanted, scores: str) -> list[Group]:
    """The tensors that the caller named: by their whole names, with or without a ``*``, else by their short ones."""
    every = dump.tensors.tensors.keys() | dump.tensors.broken.keys()
    if scores not in every and (scopes := [scope for scope in dump.scopes if scores in scope.own]):
        groups = []
        for scope in scopes:
            given = {role: getattr(wanted, role) for role in ROLES}
            places = {role: name and (scope.get(name) or name) for role, name in given.items()}
            mapped = scope.mapped if scope.indices and places["indices"] == scope.own[scope.indices] else None
            groups.append(Group(scope.own[scores], **places, ints=_ints(dump, scope, wanted), mapped=mapped))
        return groups
    found = find_groups(every, scores, wanted.lengths, wanted.starts, wanted.indices)
    if found is None:
        raise CaptureError(
            f"no tensor matches {brief(scores)!r}; there are {dump.tensors.listed()}", file=dump.tensors.file
        )
    if dump.silent:
        return found
    owners = {full: scope for scope in dump.scopes for full in scope.own.values()}
    return [
        Group(one.scores, one.lengths, one.starts, one.indices, _ints(dump, owners[one.scores], wanted))
        if one.scores in owners
        else one
        for one in found
    ]
