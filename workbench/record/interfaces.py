"""How the ops that are recorded are called: which argument is what, one record an op."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Interface:
    """How one op or Python function is called. Names of arguments that changed between releases are parted by ``|``.

    Attributes:
        op: its name in captures. target: ``namespace::op`` of torch's dispatcher, or ``module:function`` or
         ``module:Class.method`` of a Python seam.
     packages: what ships it, as package indexes spell it; the first one installed gives the release.
     parameters: of a dispatcher op, in the order of its schema. defaults: of those that have one.
     scores: [rows, width]. output: [rows, k], written by the op; empty where it takes none.
     returned: where nothing is to be written, what of the value that it returns is the output: ``itself``, or
         ``second`` of (values, indices). fill: what stands in empty slots; -1 where there is none.
     lengths: [rows]. lengths_of: whether they are of rows, or of requests with ``next_n`` rows each.
     starts, ends: first valid cell and the one behind the last, [rows]; without them rows are valid throughout.
     k: winners; empty where the output has k columns. rows: how many of the scores' rows count.
     pool: tokens that each score stands for; the output holds all of them, and k counts them. tail: tokens of each
         row; those of the pool that they leave open are in the output as well.
     strides: of row and column, in scores. next_n, max_seq_len: as in calls.
     raw: an output of positions beside one of cache slots. table: page tables [tables, pages], which make the
         output one of cache slots. page_size: tokens a page; 1 where there is none. bounds: rows of each table,
         cumulative. row_tables: the table of each row.
     offsets: [rows], added to every position of the output.
     writes_scores: whether the op also writes into cells of the scores that are not valid.
    """

    op: str
    target: str
    packages: tuple[str, ...]
    scores: str
    output: str
    parameters: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    returned: Literal["", "itself", "second"] = ""
    fill: str = ""
    lengths: str = ""
    lengths_of: Literal["rows", "requests"] = "rows"
    starts: str = ""
    ends: str = ""
    k: str = ""
    pool: str = ""
    tail: str = ""
    rows: str = ""
    strides: tuple[str, ...] = ()
    next_n: str = ""
    max_seq_len: str = ""
    raw: str = ""
    table: str = ""
    page_size: str = ""
    bounds: str = ""
    row_tables: str = ""
    offsets: str = ""
    writes_scores: bool = False

    @property
    def dispatched(self) -> bool:
        """Whether torch's dispatcher calls it; else it is a Python seam."""
        return "::" in self.target

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a dispatcher op by name, defaults filled in."""
        return {**self.defaults, **dict(zip(self.parameters, args, strict=False)), **kwargs}


TOPK = "torch.topk"
_VLLM, _KERNEL, _SGLANG = ("vllm",), ("sglang-kernel", "sgl-kernel"), ("sglang",)


def _of_batch(name: str) -> Interface:
    return Interface(
        op=f"vllm.{name}",
        target=f"_C::{name}",
        packages=_VLLM,
        parameters=("logits", "lengths", "output", "workspace", "k", "max_seq_len"),
        scores="logits",
        lengths="lengths",
        output="output",
        k="k",
        max_seq_len="max_seq_len",
    )


def _of_kernel(name: str, op: str, parameters: str, **fields: str) -> Interface:
    return Interface(
        op=f"sglang.{op}",
        target=f"sgl_kernel::{name}",
        packages=_KERNEL,
        parameters=tuple(parameters.split()),
        defaults={"row_starts": None, "raw_indices": None},
        **fields,  # type: ignore[arg-type]
    )


def _plain(target: str) -> Interface:
    return Interface(
        op=TOPK,
        target=target,
        packages=("torch",),
        parameters=("self", "k", "dim", "largest", "sorted"),
        defaults={"dim": -1, "largest": True, "sorted": True},
        scores="self",
        output="",
        returned="second",
        k="k",
    )


def _seam(op: str, functions: str, modules: tuple[str, ...], **fields: Any) -> tuple[Interface, ...]:
    """One record for every place where releases have had a function."""
    return tuple(
        Interface(
            op=op,
            target=f"{module}:{function}",
            packages=_SGLANG,
            **{"scores": "scores", "lengths": "seq_lens", **fields},
        )
        for module in modules
        for function in functions.split("|")
    )


_DSV4 = (
    "sglang.kernels.ops.attention.dsv4.topk",
    "sglang.jit_kernel.dsv4.topk",
    "sglang.jit_kernel.deepseek_v4",
)
_PAGED: dict[str, Any] = {
    "output": "out_page_indices|page_indices",
    "raw": "out_raw_indices|raw_indices",
    "table": "page_tables|page_table",
    "page_size": "page_size",
}

_DEEP_SELECT: dict[str, Any] = {
    "scores": "input",
    "lengths": "",
    "starts": "begin",
    "ends": "end",
    "k": "topk",
    "output": "output_idx",
    "fill": "idx_oob_fill_value",
    "offsets": "output_idx_offset",
}

_DEEP_SELECT_ORDER = (
    "input topk begin end sorted_value sorted_index output_value output_idx output_idx_offset idx_oob_fill_value "
    "value_oob_fill_value return_value abort_when_nan_found"
)

INTERFACES: tuple[Interface, ...] = (
    _of_batch("persistent_topk"),
    _of_batch("cooperative_topk"),
    Interface(
        op="vllm.deep_select",
        target="deep_select::topk",
        packages=_VLLM,
        parameters=tuple(_DEEP_SELECT_ORDER.split()),
        **_DEEP_SELECT,
    ),
    Interface(
        op="vllm.top_k_per_row_decode",
        target="_C::top_k_per_row_decode",
        packages=_VLLM,
        parameters=("logits", "next_n", "seq_lens", "indices", "numRows", "stride0", "stride1", "topK"),
        scores="logits",
        lengths="seq_lens",
        lengths_of="requests",
        output="indices",
        k="topK",
        rows="numRows",
        strides=("stride0", "stride1"),
        next_n="next_n",
    ),
    Interface(
        op="vllm.top_k_per_row_prefill",
        target="_C::top_k_per_row_prefill",
        packages=_VLLM,
        parameters=("logits", "rowStarts", "rowEnds", "indices", "numRows", "stride0", "stride1", "topK"),
        scores="logits",
        starts="rowStarts",
        ends="rowEnds",
        output="indices",
        k="topK",
        rows="numRows",
        strides=("stride0", "stride1"),
    ),
    _of_kernel(
        "fast_topk",
        "fast_topk_v2",
        "score indices lengths row_starts",
        scores="score",
        lengths="lengths",
        output="indices",
        starts="row_starts",
    ),
    _of_kernel(
        "fast_topk_transform_fused",
        "fast_topk_transform_fused",
        "score lengths dst_page_table src_page_table cu_seqlens_q row_starts",
        scores="score",
        lengths="lengths",
        output="dst_page_table",
        table="src_page_table",
        bounds="cu_seqlens_q",
        starts="row_starts",
    ),
    _of_kernel(
        "fast_topk_transform_ragged_fused",
        "fast_topk_transform_ragged_fused",
        "score lengths topk_indices_ragged topk_indices_offset row_starts",
        scores="score",
        lengths="lengths",
        output="topk_indices_ragged",
        offsets="topk_indices_offset",
        starts="row_starts",
    ),
    _of_kernel(
        "deepseek_v4_topk_transform_512",
        "deepseek_v4_topk_transform_512",
        "scores seq_lens page_table page_indices page_size raw_indices",
        scores="scores",
        lengths="seq_lens",
        **_PAGED,
    ),
    _plain("aten::topk"),
    _plain("aten::topk.values"),
    Interface(
        op="vllm.sparse_indexer_topk",
        target="vllm.model_executor.layers.indexer_topk:SparseIndexerTopk.forward",
        packages=_VLLM,
        scores="logits",
        lengths="seq_lens",
        lengths_of="requests",
        output="topk_indices",
        k="topk_tokens",
        next_n="next_n",
        max_seq_len="max_seq_len",
    ),
    *_seam("sglang.topk_transform_paged", "topk_transform_paged|topk_transform_512", _DSV4, **_PAGED),
    *_seam("sglang.topk_transform_paged_v2", "topk_transform_paged_v2|topk_transform_512_v2", _DSV4, **_PAGED),
    *_seam(
        "sglang.topk_transform_bf16_small",
        "topk_transform_bf16_small",
        _DSV4,
        output="out_page_indices",
        table="page_table",
        page_size="page_size",
    ),
    *_seam(
        "sglang.topk_transform_ragged_v2",
        "topk_transform_ragged_v2",
        _DSV4,
        output="out_indices",
        offsets="out_offsets",
        starts="row_starts",
        writes_scores=True,
    ),
    *_seam(
        "sglang.kpool_topk_transform",
        "fast_kpool_topk_transform_fused",
        ("sglang.kernels.ops.attention.dsa.kpool_topk_transform", "sglang.kernels.ops.moe.kpool_topk_transform"),
        scores="score",
        lengths="lengths",
        output="",
        returned="itself",
        k="topk",
        pool="kpool|pool_size",
        tail="seq_lens",
        table="page_table",
        row_tables="page_table_row_index",
        offsets="topk_indices_offset",
        starts="row_starts",
    ),
    *_seam(
        "sglang.topk_transform_kpool_v2",
        "topk_transform_kpool_v2",
        _DSV4,
        lengths="pool_lens",
        output="out",
        pool="pool_size",
        tail="token_seq_lens",
        table="page_table",
        page_size="page_size",
        offsets="out_offsets",
    ),
    *_seam(
        "sglang.topk_transform_kpool_ragged_v2",
        "topk_transform_kpool_ragged_v2",
        _DSV4,
        lengths="pool_lens",
        output="out",
        pool="pool_size",
        tail="token_seq_lens",
        table="page_table",
        row_tables="page_table_row_index",
        page_size="page_size",
        offsets="out_offsets",
        starts="row_starts",
        writes_scores=True,
    ),
    *_seam(
        "sglang.fast_topk",
        "fast_topk",
        ("sglang.kernels.ops.attention.fast_topk", "sglang.jit_kernel.fast_topk"),
        scores="score",
        lengths="lengths",
        output="",
        returned="itself",
        k="topk",
        starts="row_starts",
    ),
    *_seam(
        "sglang.deep_select",
        "topk",
        ("sglang.kernels.ops.attention.deep_select",),
        **_DEEP_SELECT,
        returned="second",
    ),
    *_seam(
        "sglang.topk_page_transform",
        "topk_page_transform",
        ("sglang.kernels.ops.attention.deep_select",),
        scores="input",
        lengths="",
        ends="end",
        k="topk",
        output="output_idx",
        returned="itself",
        fill="idx_oob_fill_value",
        table="page_table",
        page_size="page_size",
    ),
)


def known_ops() -> list[str]:
    """The names of all ops that can be recorded, each once."""
    return list(dict.fromkeys(one.op for one in INTERFACES))


def matches(op: str, pattern: str) -> bool:
    """Whether an op is one of ``pattern``: globs parted by ``|``."""
    return any(fnmatch.fnmatchcase(op, part.strip()) for part in pattern.split("|"))
