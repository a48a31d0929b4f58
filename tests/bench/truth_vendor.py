"""Run released ops on the truth cases through the vendor engine and hold them against what was recorded.

python -m tests.bench.truth_vendor --output FILE [--pack FILE | --store FOLDER | --libraries FOLDER] [--cases 's0*']

Every case is built once and given, as the whole batch that it is, to every op of every release. A case is lossy where
any call lost a winner. Where a random arrival order would leave the batch clean with a probability between 0.01 and
0.99, either is right: such cases are marked undecided and not held against the record. Exit code 1: something else
differs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import torch

from tests import truth
from workbench.engines.launch import Answer, Launch
from workbench.engines.vendor.engine import VendorEngine
from workbench.engines.vendor.sources import Finder
from workbench.numeric.keys import value_keys
from workbench.paths.ops import get_op
from workbench.paths.releases import parse_release
from workbench.paths.selection import UNWRITTEN

RELEASES = (
    "vllm==0.20.2",
    "vllm==0.24.0",
    "vllm==0.26.0",
    "vllm==0.29.0",
    "vllm==0.32.0",
    "vllm==0.33.0",
    "sglang-kernel==0.4.6",
)
OPS = ("vllm.persistent_topk", "vllm.cooperative_topk", "vllm.top_k_per_row_decode", "sglang.fast_topk_v2")
UNDECIDED = (0.01, 0.99)
SEEN_ROWS = 4  # of which the different sets are counted


class Judge:
    """Selections of one batch, judged all at once.

    Args:
        scores: float [rows, width]. lengths: of the rows. k: winners wanted.
    """

    def __init__(self, scores: torch.Tensor, lengths: list[int], k: int) -> None:
        keys = value_keys(scores).to(torch.int64)
        self.lengths = torch.tensor(lengths, device=scores.device)
        cells = torch.arange(scores.shape[1], device=scores.device)
        self.keys = torch.where(cells < self.lengths[:, None], keys, torch.iinfo(torch.int64).min)
        self.wanted = self.lengths.clamp(max=k)
        best = torch.topk(self.keys, min(k, scores.shape[1])).values
        self.cut = best.gather(1, (self.wanted - 1).clamp(0)[:, None])  # the last winner's
        self.need = self.wanted - (self.keys > self.cut).sum(1)  # winners among its equals

    def missing(self, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How many values of the exact selection each row of each call lacks, and how many slots are no valid choice.

        Args:
            indices: int [calls, rows, k].

        Returns:
            int64 [calls, rows] both. Repeated, unwritten, short and out-of-range slots count in the second.
        """
        slots = indices.to(self.keys.device, torch.int64).sort(-1).values
        inside = (slots >= 0) & (slots < self.lengths[:, None])
        repeated = torch.zeros_like(inside)
        repeated[..., 1:] = inside[..., 1:] & (slots[..., 1:] == slots[..., :-1])
        chosen = self.keys.expand(slots.shape[0], -1, -1).gather(2, slots.clamp(0, self.keys.shape[1] - 1))
        once = inside & ~repeated
        above = (once & (chosen > self.cut)).sum(-1)
        equal = (once & (chosen == self.cut)).sum(-1).minimum(self.need)
        empty = (slots == -1).sum(-1)
        short = (empty - (slots.shape[-1] - self.wanted)).clamp(0)
        return self.wanted - above - equal, (~inside & (slots != -1)).sum(-1) + repeated.sum(-1) + short


def asked(case_id: str, releases: list[str]) -> list[tuple[str, str]]:
    """The ops and releases that a case was recorded for."""
    recorded = {(one.op, one.release) for one in truth.records()[case_id]}
    return [(op, release) for release in releases for op in OPS if (op, release) in recorded]


def entry(case_id: str, op: str, release: str, answer: Answer, judge: Judge, p_clean: float) -> dict[str, object]:
    """One record: what was seen, what was recorded, and whether they agree."""
    (recorded,) = [one for one in truth.records()[case_id] if (one.op, one.release) == (op, release)]
    made: dict[str, object] = {"case": case_id, "op": op, "release": release, "p_clean": float(f"{p_clean:.4g}")}
    undecided = UNDECIDED[0] < p_clean < UNDECIDED[1]
    was_lossy = max(recorded.missing_total) > 0
    made |= {"undecided": undecided, "recorded_lossy": was_lossy, "recorded_missing": list(recorded.missing_total)}
    if answer.indices is None:
        return made | {"refused": list(answer.refused), "fault": answer.fault, "agrees": False}
    missing, invalid = judge.missing(answer.indices)
    lossy = bool(missing.any())
    sets = [
        answer.indices[:, row].sort(-1).values.unique(dim=0).shape[0] for row in range(len(judge.lengths))[:SEEN_ROWS]
    ]
    return made | {
        "lossy": lossy,
        "missing": missing.sum(1).tolist(),
        "bad_rows": int((missing > 0).sum(1).max()),
        "invalid_slots": int(invalid.sum()),
        "unwritten": int((answer.indices == UNWRITTEN).sum()),
        "distinct_sets": sets,
        "agrees": lossy == was_lossy or undecided,
        "model_agrees": undecided or lossy == (p_clean <= UNDECIDED[0]),
        **({"notes": list(answer.notes)} if answer.notes else {}),
    }


def summary(records: list[dict[str, object]]) -> dict[str, object]:
    """Counts over all records, and by op and release."""
    by = {}
    for one in records:
        counts = by.setdefault(f"{one['op']} {one['release']}", Counter())
        counts["cases"] += 1
        counts["lossy"] += bool(one.get("lossy"))
        counts["recorded lossy"] += bool(one["recorded_lossy"])
        counts["undecided"] += bool(one["undecided"])
        counts["not run"] += "lossy" not in one
        counts["invalid"] += bool(one.get("invalid_slots"))
        counts["differ"] += not one["agrees"]
        counts["model differs"] += "lossy" in one and not one["model_agrees"]
    total = sum(by.values(), Counter())
    return {"all": dict(total), "by op and release": {name: dict(counts) for name, counts in sorted(by.items())}}


KEPT = ("p_clean", "lossy", "recorded_lossy", "agrees")  # said whatever they are


def as_text(result: dict[str, object]) -> str:
    """JSON with one record a line, without counts of nothing: a list of zeros, say."""
    head = json.dumps({name: value for name, value in result.items() if name != "records"}, indent=1)
    records = ",\n".join(json.dumps(_told(one), separators=(",", ":")) for one in result.get("records", ()))
    return head.removesuffix("\n}") + ',\n "records": [\n' + records + "\n]}\n"


def _told(record: dict[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in record.items()
        if name in KEPT or (any(value) if isinstance(value, list) else bool(value))
    }


def save(output: Path, result: dict[str, object]) -> None:
    """Put the file in place whole."""
    part = output.with_name(f".{output.name}.part")
    part.write_text(as_text(result))
    part.replace(output)


def run_case(
    case_id: str, engines: dict[str, VendorEngine], calls: int, device: str
) -> tuple[list[dict[str, object]], dict[str, dict[str, str]]]:
    """The records of one case, and what each release ran on."""
    scores, lengths = truth.batch(case_id)
    k, width = truth.cases()[case_id]["k"], scores.shape[1]
    known, judge = truth.Risks(truth.rows_of(case_id, scores, lengths)), Judge(scores.to(device), lengths, k)
    sent = torch.tensor(lengths, dtype=torch.int32)
    found, about = [], {}
    for op, release in asked(case_id, list(engines)):
        p_clean = math.prod(row.p_clean for row in known.of(op, release))
        answer = engines[release].answer(Launch(op, k, scores, sent, width, slots=tuple(range(len(lengths)))), calls)
        found.append(entry(case_id, op, release, answer, judge, p_clean))
        about[release] = answer.about or about.get(release, {})
    return found, about


def libraries(folder: Path) -> Finder:
    """A store of plain folders: ``FOLDER/vllm-0.26.0/….so``."""

    class Plain:
        def __init__(self, home: Path) -> None:
            self.home = home

        def library_for(self, op: str, capability: tuple[int, int]) -> Path:
            names = sorted(self.home.rglob("*.so"), key=lambda path: "stable" not in path.name)
            of_op = [path for path in names if get_op(op).source.rpartition(".")[2].encode() in path.read_bytes()]
            if not of_op:
                raise LookupError(f"{self.home} holds no library with {op}")
            return of_op[0]

    def find(wheel: object) -> Plain:
        home = folder / str(wheel).replace("==", "-")
        if not home.is_dir():
            raise LookupError(f"{home} is not there")
        return Plain(home)

    return find


def finder_of(told: argparse.Namespace, stack: ExitStack) -> Finder | None:
    """Where the libraries are looked for; ``None`` for the user's own store and what is installed."""
    if told.libraries:
        return libraries(told.libraries)
    if not told.pack and not told.store:
        return None
    from workbench.vendor.store import find

    root = told.store or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="workbench-store-")))
    if told.pack:
        from workbench.vendor.pack import unpack

        for added in unpack(told.pack, root):
            print(f"unpacked {added.stored.release}", flush=True)
    return partial(find, root=root)


def arguments(given: list[str] | None) -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--pack", type=Path, help="an archive of `workbench vendor pack`; unpacked for this run only")
    where.add_argument("--store", type=Path, help="a store, in place of the user's own")
    where.add_argument("--libraries", type=Path, help="a folder with a folder of libraries for each release")
    parser.add_argument("--releases", nargs="+", default=list(RELEASES))
    parser.add_argument("--cases", default="*", help="glob over their names")
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args(given)


def _plain(words: list[str]) -> list[str]:
    """A command line without the folders of the machine that ran it."""
    return [Path(word).name if "/" in word else word for word in words]


def _placeless(about: dict[str, str]) -> dict[str, str]:
    """What ran, with the library by its name alone."""
    return about | ({"library": Path(about["library"]).name} if "library" in about else {})


def main(given: list[str] | None = None) -> int:
    """Run every case; the output holds what is done so far at any time."""
    told = arguments(given)
    cases = [name for name in truth.cases() if fnmatch(name, told.cases)]
    for release in told.releases:
        parse_release(release)
    began = time.perf_counter()
    records: list[dict[str, object]] = []
    result: dict[str, object] = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if told.device != "cpu" else "cpu",
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]},
        "command": " ".join(["python -m tests.bench.truth_vendor", *_plain(sys.argv[1:] if given is None else given)]),
        "calls": told.calls,
        "complete": False,
    }
    about: dict[str, dict[str, str]] = {}
    with ExitStack() as stack:
        finder = finder_of(told, stack)
        engines = {
            release: stack.enter_context(VendorEngine(release, device=told.device, finder=finder))
            for release in told.releases
        }
        for at, case_id in enumerate(cases, 1):
            since = time.perf_counter()
            made, ran = run_case(case_id, engines, told.calls, told.device)
            records += made
            about |= {release: _placeless(one) for release, one in ran.items() if one}
            result |= {"seconds": round(time.perf_counter() - began, 1), "complete": at == len(cases)}
            result |= {"about": about, "summary": summary(records), "records": records}
            save(told.output, result)
            differ = [f"{one['op']} {one['release']}" for one in made if not one["agrees"]]
            spent = time.perf_counter() - since
            says = f"differ: {', '.join(differ)}" if differ else "as recorded"
            print(f"{at}/{len(cases)} {case_id}: {len(made)} records, {spent:.1f} s, {says}", flush=True)
            for reason in {str(one["fault"] or "; ".join(one["refused"])) for one in made if "lossy" not in one}:
                print(f"    not run: {reason}", flush=True)
    print(json.dumps(result.get("summary", {}), indent=1))
    return int(not records or not all(one["agrees"] for one in records))


if __name__ == "__main__":
    sys.exit(main())
