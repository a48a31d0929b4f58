"""The two-level indexer: maxima of blocks of 8 scores, the best blocks, and the tokens that only these can hold.

A source layer keeps the ``blocks`` best blocks of a row by their maximum, 2048 in SGLang, hence 16384 candidate
positions; consumer layers select among those only. Three steps, apart from how blocks are selected: ``block_amax``
(``amax8_varlen``), ``candidate_blocks`` (``sort_candidate_blocks``) and ``candidate_pages`` (its page output, and
``transform_candidate_blocks``). ``two_level`` puts them together and says what of the exact top-k is lost.

Described from SGLang's sources, not observed on a device. Everything is torch, on the tensor's own device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from workbench.errors import UsageError
from workbench.numeric.keys import signed_keys
from workbench.numeric.select import difference, exact_topk
from workbench.paths.faults import Finding
from workbench.paths.transforms import PageTable
from workbench.paths.transforms.base import LARGEST
from workbench.paths.transforms.slots import check_page_size
from workbench.words import few

BLOCK = 8  # scores
KEPT = 2048  # blocks that SGLang's source layer keeps, and the most that its sort takes
BITMAP = 131072  # block ids that the sort's shared bitmap has bits for: rows of 1048576 tokens
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
PADDING = LARGEST  # of block ids past a row's count

Selector = Callable[[torch.Tensor, int], torch.Tensor]


@dataclass(frozen=True, eq=False)
class BlockKeys:
    """What ``block_amax`` writes for one row.

    The kernel leaves the rest of its output as it was, the whole of it for a row that it skips. So that nothing that
    was never written can pass for a key (a NaN may be one), only what is written is here; ``into`` writes it where the
    kernel would.

    Attributes:
        values: float32 [ceil(length / 8)], [0] for a skipped row. skipped: whether the row was skipped.
    """

    values: torch.Tensor
    skipped: bool = False

    def into(self, out: torch.Tensor) -> torch.Tensor:
        """Write the keys into the front of a float32 buffer, and nothing past them; gives the buffer.

        Raises:
            UsageError: the buffer is too small, which the kernel does not check.
        """
        if out.dim() != 1 or out.dtype != torch.float32 or out.numel() < self.values.numel():
            raise UsageError(
                f"the output is {out.dtype} {list(out.shape)}; float32 of at least {self.values.numel()} is needed "
                "(the kernel does not check)"
            )
        out[: self.values.numel()] = self.values
        return out


def block_count(length: int) -> int:
    """Blocks of a row, the last one maybe partial."""
    return -(-length // BLOCK)


def block_amax(scores: torch.Tensor, length: int | None = None, skip_up_to: int = 0) -> BlockKeys:
    """The key of every block of 8 scores: their maximum, and +inf for the last block, so that it is always kept.

    A NaN is ignored where the block holds a number (``torch.amax`` would return it), and kept where all 8 are NaN;
    +0.0 stands above -0.0. ``amax8_varlen`` of SGLang; its buffers must have strides of 8 scores and bases of 32 bytes.

    Args:
        scores: float32 [n]; what lies past the length does not matter.
        length: valid scores, all by default.
        skip_up_to: a row of so many blocks or fewer is skipped: all of its blocks are kept anyway.

    Raises:
        UsageError: other scores, or a length outside the row.
    """
    length = scores.numel() if length is None else length
    if scores.dim() != 1 or scores.dtype != torch.float32:
        raise UsageError(f"block maxima are taken of float32 [n]; this is {scores.dtype} {list(scores.shape)}")
    if not 0 <= length <= scores.numel():
        read = (
            "" if length >= 0 else ", read as unsigned by the kernel: -1 to -7 give no blocks, less walks off the row"
        )
        raise UsageError(f"length is {length}, outside 0 to {scores.numel()}{read}")
    count = block_count(length)
    if count <= max(skip_up_to, 0):
        return BlockKeys(scores.new_empty(0), skipped=count > 0)
    # The last block is +inf whatever it holds, so a partial one is never read.
    whole = scores[: (count - 1) * BLOCK].view(count - 1, BLOCK)
    lowest = torch.iinfo(torch.int32).min  # below -inf: no number has this key
    keys = signed_keys(whole).masked_fill_(whole.isnan(), lowest).amax(1)
    best = torch.where(keys < 0, keys ^ LARGEST, keys).view(torch.float32).masked_fill_(keys == lowest, torch.nan)
    return BlockKeys(torch.cat([best, best.new_full((1,), torch.inf)]))


@dataclass(frozen=True, eq=False)
class CandidateBlocks:
    """The table of a row's kept blocks.

    Attributes:
        ids: int32 [k], ascending, ``PADDING`` (2^31 - 1) past the row's count; ``None`` where the kernel writes past
            its memory, so that nothing can be said of its output.
        kept: int64, the same without padding; empty where nothing can be said.
        findings: what went wrong, in words; empty for a selection that keeps the contract.
    """

    ids: torch.Tensor | None
    kept: torch.Tensor
    findings: tuple[Finding, ...] = ()


def candidate_blocks(selected: torch.Tensor, length: int) -> CandidateBlocks:
    """Selected block ids in ascending order; the kernel rewrites its input in place, this returns a new tensor.

    A row of at most k blocks gets all of them, whatever was selected. ``sort_candidate_blocks`` of SGLang: a counting
    sort on a bitmap in shared memory, always the same output for the same set.

    Args:
        selected: int32 or int64 [k], in any order, negative where empty. length: of the row, in scores.

    Raises:
        UsageError: k above 2048, or a negative length.
    """
    if selected.dim() != 1 or selected.dtype not in (torch.int32, torch.int64):
        raise UsageError(f"block ids are int32 or int64 [k]; this is {selected.dtype} {list(selected.shape)}")
    k, count = selected.numel(), block_count(length)
    if not 1 <= k <= KEPT or length < 0:
        raise UsageError(f"k is {k} and length {length}; k from 1 to {KEPT} and a length of 0 or more are needed")
    out = torch.full((k,), PADDING, dtype=torch.int32, device=selected.device)
    if count <= k:
        every = torch.arange(count, device=selected.device)
        out[:count] = every
        return CandidateBlocks(out, every)
    ids = selected[selected >= 0].to(torch.int64)
    if (past := ids >= BITMAP).any():
        words = (
            f"block ids {few(ids[past].tolist())} are past the {BITMAP} of the shared bitmap and nothing checks them: "
            "memory past it is overwritten, and nothing bounds the damage (derived, not observed)"
        )
        return CandidateBlocks(None, ids[:0], (Finding(words, "certain"),))
    unique = torch.unique(ids)
    out[: unique.numel()] = unique
    return CandidateBlocks(out, unique, tuple(_broken(selected, ids, unique, length)))


def _broken(selected: torch.Tensor, ids: torch.Tensor, unique: torch.Tensor, length: int) -> list[Finding]:
    """How a selection of a row of more than k blocks breaks the contract of the sort."""
    k, count, found = selected.numel(), block_count(length), []
    if empty := k - ids.numel():
        found.append(f"{empty} of {k} slots hold no block, though the row has {count}: it comes back short by as many")
    if repeats := ids.numel() - unique.numel():
        values, times = torch.unique(ids, return_counts=True)
        named = few(values[times > 1].tolist())
        found.append(f"repeated block ids ({named}) collapse in the bitmap: the row comes back short by {repeats}")
    if (outside := unique >= count).any():
        named = few(unique[outside].tolist())
        found.append(f"block ids {named} are past the row's {count} blocks: they stay in the table as candidates")
    if not (unique == count - 1).any():
        partial = length % BLOCK
        cut = f": of the last kept block only {partial} of {BLOCK} scores count, as of the newest" if partial else ""
        found.append(f"the newest block, {count - 1}, is not among them{cut}")
    return [Finding(f"{words} (derived, not observed)", runs=True) for words in found]


def candidate_pages(ids: torch.Tensor, table: torch.Tensor, page_size: int) -> torch.Tensor:
    """Kept blocks as pool slots / 8: ``table[id // bpp] * bpp + id % bpp``, with ``bpp = page_size / 8`` blocks a page.

    ``PageTable(pages, 8)`` then maps a consumer's column to its cache slot, and ``PageTable(ids, 8)`` to its position.

    Args:
        ids: int32 [k] of ``candidate_blocks``. table: int [pages] of the row. page_size: tokens a page.

    Returns:
        int32 [k]; padding stays.

    Raises:
        UsageError: a page size that is no power of two of at least 8, or a table that does not cover a block.
    """
    check_page_size(page_size, BLOCK)
    padding = ids == PADDING
    pages = PageTable(table, page_size // BLOCK).apply(ids.masked_fill(padding, -1), None)
    return pages.masked_fill(padding, PADDING)


def candidate_length(length: int, blocks: int = KEPT) -> int:
    """Scores that a consumer sees: the kept blocks side by side, the newest of which may be partial."""
    kept = min(block_count(length), blocks)
    return (kept - 1) * BLOCK + (length - 1) % BLOCK + 1 if length > 0 else 0


def most_missing(k: int, length: int, blocks: int = KEPT) -> int:
    """The most winners that the two levels can lose, if no score is NaN, both select exactly and both rank one row.

    Nothing where every block is kept, or more blocks than winners: the newest block takes one place, and the k best
    lie in at most k others. Each block short of that costs one winner at most, since every other kept block holds one.
    """
    return 0 if block_count(length) <= blocks else max(0, min(k, length) - (blocks - 1))


@dataclass(frozen=True, eq=False)
class TwoLevel:
    """What a two-level indexer selects of one row.

    Attributes:
        blocks: int64, the kept blocks, ascending. positions: int64, the candidates they hold, ascending.
        selected: int64, the k best candidates, best first.
        lost: int64, winners of the whole row whose values are lacking, best first (a multiset: ties do not count);
            ``None`` where nothing can be said, see ``CandidateBlocks``.
        bound: ``most_missing`` for this row; ``None`` where it does not hold (NaN, other scores at the second level,
            a selector of blocks that was given).
        findings: what went wrong with the blocks, in words.
    """

    blocks: torch.Tensor
    positions: torch.Tensor
    selected: torch.Tensor
    lost: torch.Tensor | None
    bound: int | None
    findings: tuple[Finding, ...] = ()

    @property
    def missing(self) -> int | None:
        """How many values of the exact top-k are lost; ``None`` where nothing can be said."""
        return None if self.lost is None else self.lost.numel()


def two_level(
    scores: torch.Tensor,
    k: int,
    blocks: int = KEPT,
    select: Selector | None = None,
    consumer: torch.Tensor | None = None,
) -> TwoLevel:
    """Keep the best blocks of a row, select the k best of their scores, and compare with the k best of the row.

    Args:
        scores: float32 [length], the valid scores. k: winners wanted. blocks: how many are kept, up to 2048.
        select: gives the indices of the n best of the keys it is handed, -1 padded; exact by default. To try a path:
            ``lambda keys, n: run_model(path, keys, n, arrival).indices``. A row of at most ``blocks`` blocks does not
            reach it.
        consumer: [length], the scores that the second level ranks, of another layer; the same by default.

    Raises:
        UsageError: scores, k or lengths that do not fit.
    """
    second = scores if consumer is None else consumer.to(scores.device)
    if second.shape != scores.shape or second.dtype not in DTYPES:
        shape = f"{second.dtype} {list(second.shape)}"
        raise UsageError(f"the consumer's scores are {shape}; one float32, bfloat16 or float16 a position is needed")
    if not _whole(k, 1) or not _whole(blocks, 1) or blocks > KEPT:
        raise UsageError(f"k is {k!r} and blocks {blocks!r}; integers of 1 or more are needed, blocks up to {KEPT}")
    keys, length = block_amax(scores).values, scores.numel()
    every, nan = keys.numel() <= blocks, int(scores.isnan().sum())
    chosen = torch.full((blocks,), -1, dtype=torch.int64, device=scores.device)
    if not every:
        picked = (select or exact_topk)(keys, blocks)
        if picked.dim() != 1 or picked.numel() > blocks:
            raise UsageError(f"the selector gave {list(picked.shape)} block ids and at most [{blocks}] are wanted")
        chosen[: picked.numel()] = picked
    table = candidate_blocks(chosen, length)
    findings = table.findings
    if nan and not every:
        words = f"{nan} scores are NaN, which block maxima ignore and the reference ranks first"
        findings = (Finding(words, runs=True), *findings)
    kept = table.kept
    columns = (kept[:, None] * BLOCK + torch.arange(BLOCK, device=kept.device)).flatten()
    positions = columns[: candidate_length(length, blocks)]  # the last kept block counts as the partial one
    positions = positions[positions < length]
    selected = positions[exact_topk(second[positions], k)]
    lost = None if table.ids is None else difference(second, exact_topk(second, k), selected).lost
    bound = None if nan or select or consumer is not None else most_missing(k, length, blocks)
    return TwoLevel(kept, positions, selected, lost, 0 if every else bound, findings)


def _whole(number: object, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least
