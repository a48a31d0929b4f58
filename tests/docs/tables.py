"""Tables of the documentation that follow from code, between ``<!-- table: NAME -->`` and ``<!-- end -->``.

python -m tests.docs.tables          # rewrite them
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

import workbench as wb
from workbench.analysis.profile import RowProfile
from workbench.analysis.risk import Risk, census
from workbench.analysis.walks import walked_missing
from workbench.audit.schema import COLUMNS
from workbench.capture.format import (
    CALL_FIELDS,
    MAPPING_TENSORS,
    RETURNED,
    STRINGS,
    TENSORS,
    TOKEN_TENSORS,
    TensorSpec,
)
from workbench.capture.readers.naming import NAMES
from workbench.capture.readers.table import READERS
from workbench.engines.vendor.adapters import ADAPTERS, Adapter
from workbench.figures.path_tables import rests_on
from workbench.paths.catalog import get_path
from workbench.paths.devices import DEVICES, Device
from workbench.paths.ops import OPS, Op
from workbench.paths.plan import FEW_ROWS, TEXTS
from workbench.paths.releases import OBSERVED
from workbench.paths.spec import Evidence
from workbench.paths.transforms import MODES
from workbench.paths.walk import walk_of
from workbench.record.interfaces import INTERFACES
from workbench.runs.matrix_words import cell_text, matrix_sentence
from workbench.synthetic.distributions import DISTRIBUTIONS
from workbench.vendor.schemas import known_schemas
from workbench.words import listed

ROOT = Path(__file__).parents[2]
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "captures" / "README.md")
REGION = re.compile(r"(<!-- table: (?P<name>[a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *[[str(cell) for cell in row] for row in rows]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tensors() -> str:
    """Tensors of the capture format that hold rows."""
    return _tensors(TENSORS)


def audit_columns() -> str:
    """Columns of an audit's records."""
    return _table(["column", "type", "says"], [(f"`{one.name}`", one.type, one.about) for one in COLUMNS])


def mappings() -> str:
    """Tensors of the capture format that hold how recorded indices were mapped."""
    return _tensors(MAPPING_TENSORS)


def returned() -> str:
    """What recorded indices may be."""
    return _table(
        ["`returned`", "recorded indices are"], [(f"`{name}`", meaning) for name, meaning in RETURNED.items()]
    )


def tokens() -> str:
    """Tensors of the capture format that hold tokens."""
    return _tensors(TOKEN_TENSORS)


def _tensors(specs: Iterable[TensorSpec]) -> str:
    return _table(
        ["tensor", "dtype", "shape", "", "meaning"],
        [
            (f"`{t.name}`", ", ".join(t.dtypes), t.shape, "required" if t.required else "optional", t.meaning)
            for t in specs
        ],
    )


def call_fields() -> str:
    """Integers of a call in the capture format."""
    return _table(["tensor", "meaning"], [(f"`{name}`", meaning) for name, meaning in CALL_FIELDS.items()])


def strings() -> str:
    """Strings of the capture format."""
    return _table(["string", "meaning"], [(f"`{name}`", meaning) for name, meaning in STRINGS.items()])


def readers() -> str:
    """Formats that are read."""
    return _table(["format", "is recognised by"], [(reader.format, reader.about) for reader in READERS])


def tensor_names() -> str:
    """Names by which tensors of dumps are found."""
    rows = [(role, ", ".join(f"`{name}`" for name in names)) for role, names in NAMES.items()]
    return _table(["role", "names"], rows)


def paths() -> str:
    """Every path with its constants."""
    return _table(
        ["path", "what it does", "coarse key", "capacity", "k", "length", "stock", "rests on"],
        [
            (
                f"`{path.name}`",
                path.summary,
                f"{path.key_bits} bits" if path.key_bits else "none",
                "none" if path.capacity_of() is None else path.capacity_of(),
                path.ks_in_words,
                path.lengths_in_words,
                "keeps all" if path.variant("stock").lossless else "drops",
                rests_on(path.variant("stock")),
            )
            for path in wb.paths()
        ],
    )


def variants() -> str:
    """Every variant but stock, with the paths that have it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path in wb.paths():
        for variant in path.variants:
            if variant.name != "stock":
                keeps = "keeps all" if variant.lossless else "can lose"
                key = (f"`{variant.name}`", variant.note, keeps, rests_on(variant), ", ".join(variant.references))
                found.setdefault(key, []).append(f"`{path.name}`")
    rows = [(name, "<br>".join(paths), *rest) for (name, *rest), paths in sorted(found.items())]
    return _table(["variant", "paths", "what it is", "losses", "rests on", "reports"], rows)


def ops() -> str:
    """Ops with what they reach, the releases whose routing is known and what that rests on."""
    return _table(
        ["op", "upstream", "paths", "package and releases that have it", "rests on"],
        [
            (
                f"`{op.name}`",
                f"`{op.source}`",
                "<br>".join(f"`{path}`" for path in op.reaches),
                f"{op.package} {_releases(op)}",
                "observed" if op.evidence is Evidence.OBSERVED else "described, not observed",
            )
            for op in OPS
        ],
    )


def _releases(op: Op) -> str:
    versions = [name.split("==")[1] for name in op.releases]
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def releases() -> str:
    """Every release whose routing is known."""
    return _table(["package", "releases"], [(name, ", ".join(versions)) for name, versions in OBSERVED.items()])


def unreached() -> str:
    """Paths that no op takes, and why."""
    return _table(["path", "why"], [(f"`{path.name}`", path.unreached) for path in wb.paths() if path.unreached])


def transforms() -> str:
    """What ops return, with the ops that do."""
    return _table(
        ["returned", "transform", "column", "ops", "rests on"],
        [
            (
                mode.name,
                f"`{mode.made}`",
                mode.column.replace("|", "\\|"),
                "<br>".join(f"`{op.name}`" for op in OPS if mode.name in op.transforms),
                mode.seen,
            )
            for mode in MODES
        ],
    )


def devices() -> str:
    """Devices and the numbers that decide."""
    return _table(
        ["device", "architecture", "SMs or CUs", "opt-in shared memory, bytes", "clusters of 8, of 16", "numbers"],
        [
            (
                f"`{d.name}`",
                d.arch,
                d.sms,
                d.optin_bytes,
                _clusters(d),
                "read off a device" if d.measured else "published",
            )
            for d in DEVICES
        ],
    )


def distributions() -> str:
    """Distributions that rows are made of."""
    return _table(["name", "scores", "used by"], [(f"`{one.name}`", one.summary, one.source) for one in DISTRIBUTIONS])


def _clusters(device: Device) -> str:
    if not device.has_clusters:
        return "none"
    return "not measured" if device.clusters_8 is None else f"{device.clusters_8}, {device.clusters_16}"


def vendor_ops() -> str:
    """Ops that are looked for in the libraries of a wheel."""
    return _table(
        ["op", "schema"],
        [(f"`{op}`", f"`{name}({beginning}{', ' if beginning else ''}…)`") for name, beginning, op in known_schemas()],
    )


def adapters() -> str:
    """The ops that the vendor engine calls, and what they take."""
    rows = []
    for one in ADAPTERS.values():
        k = listed(one.ks, "or") or (f"up to {one.k_up_to}" if one.k_up_to else "any")
        k += f", a multiple of {one.k_of}" if one.k_of > 1 else ""
        scores = ", ".join(str(dtype).removeprefix("torch.") for dtype in one.dtypes)
        package = f"{one.package}, built" if one.built_when_called else one.package
        rows.append((f"`{one.op}`", package, k, scores, "any" if one.starts else "0", "; ".join(_others(one)) or "–"))
    return _table(["op", "package", "k", "scores", "starts", "besides"], rows)


def _others(one: Adapter) -> Iterator[str]:
    if one.contiguous:
        yield "no padding between rows"
    if one.stride_bytes > 1:
        yield f"stride a multiple of {one.stride_bytes} bytes"
    if one.width_up_to is not None:
        yield f"width up to {one.width_up_to}"
    for since, most in one.rows_up_to:
        yield f"up to {most} rows from {'.'.join(map(str, since))} on"
    if one.capabilities:
        known = (".".join(map(str, each)) + (".x" if len(each) == 1 else "") for each in one.capabilities)
        yield f"compute capability {', '.join(known)}"


def plan() -> str:
    """SGLang's v2 by release and architecture."""
    lines = []
    for since, text in TEXTS.items():
        for major, arch in text.archs.items():
            caps = ", ".join(f"{threshold}: {cap}" for threshold, cap in arch.caps)
            floors = f"{arch.few_rows_floor}, {arch.floor}"
            release = ".".join(map(str, since))
            lines.append((f"from {release}", str(major), floors, f"{text.least_threshold}", caps))
    return _table(
        [
            "release",
            "compute capability",
            f"floor up to {FEW_ROWS} rows, beyond",
            "least threshold",
            "plan: cap by threshold",
        ],
        lines,
    )


def samples() -> str:
    """What the samples break, as the analysis computes it for every path that takes the row."""
    lines = []
    for file in sorted((ROOT / "captures").glob("*.safetensors")):
        with wb.open(file) as capture:
            found = [census(RowProfile(row.valid, row.dtype, row.k)) for row in capture]
        lines.append((f"`{file.name}`", len(found), _of(found, _loses), _of(found, _ties_only)))
    return _table(["sample", "rows", "rows that can lose winners", "rows that overflow and lose nothing"], lines)


def _of(found: list[list[Risk]], wanted: Callable[[Risk], bool]) -> str:
    cells = []
    for path in wb.paths():
        risks = [risk for row in found for risk in row if risk.path == path.name and wanted(risk)]
        if risks:
            worst = max(risk.expected_missing or 0 for risk in risks)
            mean = f" (mean loss up to {worst:.3g})" if worst else ""
            cells.append(f"{len(risks)} on `{path.name}`{mean}")
    return "<br>".join(cells) or "none"


def _loses(risk: Risk) -> bool:
    return risk.level in ("at risk", "certain")


def _ties_only(risk: Risk) -> bool:
    return risk.level == "safe" and risk.breach and risk.buffered


def greedy() -> str:
    """Where the captured greedy runs part, as ``diverge`` finds it."""
    lines = []
    for folder in ("greedy-ties", "greedy-values"):
        for pair in combinations(("exact", "order-1", "order-2"), 2):
            with wb.diverge(*(ROOT / "captures" / folder / f"{name}.safetensors" for name in pair)) as found:
                (one,) = found.comparisons
            first = one.first
            assert first is not None
            sides = [side for side in (first.judged_a, first.judged_b) if side is not None]
            flipped = [token.step for token in one.tokens if token.state == "token differs"]
            lines.append(
                (
                    f"`{folder}`",
                    " and ".join(f"`{name}`" for name in pair),
                    f"step {first.step}, layer {first.layer}",
                    f"`{first.state}`",
                    " and ".join(str(side.missing) for side in sides),
                    f"from step {flipped[0]}" if flipped else "none that is held",
                )
            )
    return _table(["runs", "compared", "part first at", "by", "winners that they lack there", "tokens differ"], lines)


def walks() -> str:
    """What was lost of rows ordered by value, beside what random orders and walks lose; paths that lost any."""
    from tests import truth
    from tests.test_truth import risks

    seen: dict[Risk, list[truth.Record]] = {}
    case_of: dict[Risk, str] = {}
    for case_id in filter(truth.ordered, truth.cases()):
        for record, (found,) in risks(case_id).items():
            if any(record.missing_total):
                seen.setdefault(found, []).append(record)
                case_of[found] = case_id
    lines = []
    for found, records in sorted(seen.items(), key=lambda one: (one[0].path, case_of[one[0]])):
        (row,) = truth.rows(case_of[found])
        lost = walked_missing(RowProfile(row.valid, row.dtype, row.k), get_path(found.path))
        observed = [missing for record in records for missing in record.missing_total]
        lines.append(
            (
                f"`{found.path}`",
                row.k,
                f"{len(records)}, of {len(observed)} calls",
                *map(_spread, (observed, lost)),
                f"{found.expected_missing:.0f}",
                f"{found.least_missing} – {found.most_missing}",
            )
        )
    return _table(
        ["path", "k", "records", "observed", "32 walks", "random orders, mean", "any order"],
        lines,
    )


def _spread(counts: Sequence[int]) -> str:
    mean = f"{sum(counts) / len(counts):.0f}"
    return mean if len(set(counts)) == 1 else f"{mean} ({min(counts)} – {max(counts)})"


def walks_of_single_rows() -> str:
    """By how many winners random orders and walks miss what rows without an order lost."""
    from tests.walks import losses, off

    return _table(
        ["path", "loads of", "cases", "random orders are off by", "walks are off by"],
        [
            (
                f"`{path}`",
                walk_of(get_path(path)).load,
                len(lost),
                f"{off(lost, 'random'):.1f}",
                f"{off(lost, 'walks'):.1f}",
            )
            for path, lost in sorted(losses().items())
        ],
    )


def recorded() -> str:
    """What the recorder catches."""
    found: dict[str, list[str]] = {}
    for one in INTERFACES:
        place = f"`torch.ops.{one.target.replace('::', '.')}`"
        if not one.dispatched:
            place = f"`{one.target.partition(':')[2]}`"
        if place not in found.setdefault(one.op, []):
            found[one.op].append(place)
    return _table(["op", "caught as"], [(f"`{op}`", ", ".join(places)) for op, places in found.items()])


RELEASES_H200 = ROOT / "docs" / "results" / "releases-h200.json"


def releases_h200() -> str:
    """What released ops made of the samples on an H200, from the file that ``tests.bench.bench_releases`` writes."""
    if not RELEASES_H200.exists():
        return "Not measured yet.\n"
    found = wb.read_matrix(RELEASES_H200)
    texts = [matrix_sentence(found), ""]
    texts += [", ".join(f"{name} {text}" for name, text in found.about.items() if name != "command") + ".", ""]
    for package, places in found.of_package().items():
        shown = [at for at, cells in enumerate(found.cells) if any(cells[place].state != "refused" for place in places)]
        heads = [package, *(f"{found.row_name(at)}, length {found.rows[at].length}" for at in shown)]
        lines = [
            [found.releases[place].partition("==")[2], *(_cell(found.cells[at][place]) for at in shown)]
            for place in places
        ]
        texts += [_table(heads, lines).rstrip(), ""]
    return "\n".join(texts[:-1]) + "\n"


KERNELS_H200 = ROOT / "docs" / "results" / "bench-kernels-h200.json"


def bench_kernels_h200() -> str:
    """The workbench's kernels beside released ops, from the file that ``tests.bench.bench_kernels`` writes."""
    ratios: dict[tuple[str, str, str], list[float]] = {}
    for cell in json.loads(KERNELS_H200.read_text())["cells"]:
        if cell["beside_op"] is not None:
            (path,) = cell["paths"]
            key = (f"`{cell['op']}`, {cell['release']}", f"`{path}`", cell["l2"])
            ratios.setdefault(key, []).append(cell["beside_op"]["of_medians"])
    return _table(
        ["op", "path", "L2", "shapes", "least", "median", "most", "above 1.5"],
        [
            (
                *key,
                len(found),
                f"{min(found):.2f}",
                f"{median(found):.2f}",
                f"{max(found):.2f}",
                sum(r > 1.5 for r in found),
            )
            for key, found in sorted(ratios.items())
        ],
    )


PROFILE_H200 = ROOT / "docs" / "results" / "profile-h200.json"


def profile_h200() -> str:
    """Where kernels spend their time, from the file that ``tests.bench.bench_profile`` writes."""

    def greatest(shares: dict[str, float]) -> str:
        return ", ".join(f"{name} {share:.0%}" for name, share in list(shares.items())[:3])

    return _table(
        ["path", "width, k", "µs", "DRAM", "warps wait for", "samples in"],
        [
            (
                f"`{one['path']}`",
                f"{one['width']}, {one['k']}",
                f"{one['microseconds']:.0f}",
                f"{one['DRAM, % of peak']:.0f} %",
                greatest(one["share of a warp's time"]),
                greatest(one["share of samples, by file"]),
            )
            for one in json.loads(PROFILE_H200.read_text())["kernels"]
        ],
    )


def _cell(cell: wb.Cell) -> str:
    lost = f" ({cell.lost_calls} of {cell.calls} calls)" if cell.lost_calls else ""
    return f"{cell_text(cell)}{lost}"


TABLES: dict[str, Callable[[], str]] = {
    "vendor-ops": vendor_ops,
    "adapters": adapters,
    "audit-columns": audit_columns,
    "tensors": tensors,
    "tokens": tokens,
    "mappings": mappings,
    "returned": returned,
    "call-fields": call_fields,
    "strings": strings,
    "readers": readers,
    "tensor-names": tensor_names,
    "paths": paths,
    "distributions": distributions,
    "variants": variants,
    "ops": ops,
    "transforms": transforms,
    "releases": releases,
    "releases-h200": releases_h200,
    "bench-kernels-h200": bench_kernels_h200,
    "profile-h200": profile_h200,
    "unreached": unreached,
    "plan": plan,
    "devices": devices,
    "samples": samples,
    "greedy": greedy,
    "recorded": recorded,
    "walks": walks,
    "walks-of-single-rows": walks_of_single_rows,
}


def filled(text: str) -> str:
    """A page with its tables as they should be."""
    return REGION.sub(lambda m: f"{m[1]}{TABLES[m['name']]()}{m[3]}", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text()))
