"""Selections as ops return them: cache slots, moved positions and tokens of pools, with what turns them back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from workbench.engines.cuda.positions import positions_of
from workbench.paths.transforms import KPool, PageTable, Ragged, Raw, Transform

WIDTH, K = 203, 24
LENGTHS = [203, 24, 25, 23, 1, 0, 100, 203]
KINDS = [
    *((mode, pool, page_size) for mode in ("table", "owners") for pool in (1, 4) for page_size in (1, 8, 64)),
    *((mode, pool, 1) for mode in ("plain", "offsets") for pool in (1, 4)),
]


@dataclass(frozen=True, eq=False)
class Call:
    """What an op made of selections, and these."""

    entries: torch.Tensor
    selected: torch.Tensor
    lengths: torch.Tensor = field(default_factory=lambda: torch.tensor(LENGTHS, dtype=torch.int32))
    given: dict[str, Any] = field(default_factory=dict)

    def positions(self, **other: Any) -> torch.Tensor:
        return positions_of(self.entries, self.lengths, WIDTH, K, **{**self.given, **other})

    def but(self, row: int, column: int, entry: int) -> Call:
        entries = self.entries.clone()
        entries[row, column] = entry
        return replace(self, entries=entries)


def made(mode: str, pool: int = 1, page_size: int = 1) -> Call:
    """Random selections of every length, as the transforms map them."""
    generator = torch.Generator().manual_seed(5)
    rows, tail = len(LENGTHS), pool - 1
    pages = -(-WIDTH * pool // page_size) + 6  # also of the open pool, and two that mean nothing
    spread = 4 if mode == "owners" else rows
    table = torch.randperm(spread * pages * 2, generator=generator)[: spread * pages].reshape(spread, pages)
    table[:, -2:] = -1
    apart = torch.full((spread, pages + 5), 7).to(torch.int32)  # what lies between the tables is none of them
    apart[:, :pages] = table
    owners = torch.tensor([3, 0, 0, 1, 2, 2, 3, 1], dtype=torch.int32)
    offsets = torch.arange(rows, dtype=torch.int32) * 5000
    selected = torch.full((rows, K), -1, dtype=torch.int32)
    entries = torch.full((rows, K * pool + tail), -1, dtype=torch.int32)
    for row, length in enumerate(LENGTHS):
        best = torch.randperm(length, generator=generator)[:K].to(torch.int32)
        selected[row, : best.numel()] = best
        seq_len = length * pool + (row % pool if pool > 1 else 0)
        step: Transform = Raw()
        if mode in ("table", "owners"):
            step = PageTable(table[int(owners[row]) if mode == "owners" else row], page_size)
        elif mode == "offsets":
            step = Ragged(int(offsets[row]))
        whole = step if pool == 1 else KPool(pool, seq_len).then(step)
        entries[row] = whole.apply(selected[row], length)
    given: dict[str, Any] = {"pool": pool, "page_size": page_size}
    if mode in ("table", "owners"):
        given |= {"table": apart[:, :pages], "owners": owners if mode == "owners" else None}
    return Call(entries, selected, given=given | ({"offsets": offsets} if mode == "offsets" else {}))


def on_device(call: Call) -> Call:
    """The same on a CUDA device, tables as far apart as they were."""
    given = {name: one.cuda() if isinstance(one, torch.Tensor) else one for name, one in call.given.items()}
    if "table" in given:
        table = call.given["table"]
        whole = table.as_strided((table.shape[0], table.stride(0)), (table.stride(0), 1))
        given["table"] = whole.cuda()[:, : table.shape[1]]
    return replace(call, entries=call.entries.cuda(), lengths=call.lengths.cuda(), given=given)
