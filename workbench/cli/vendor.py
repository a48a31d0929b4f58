"""``workbench vendor``: released libraries that register selector ops, kept in a user's cache."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.aliases import Command
from workbench.cli.exits import BAD, CLEAN, EXIT_CODES, complain, printable
from workbench.cli.flags import Group
from workbench.cli.jsonout import print_json
from workbench.cli.layout import Column
from workbench.cli.options import Json
from workbench.cli.tables import console, counted, facts, lines, say, table
from workbench.errors import UsageError, WorkbenchError

if TYPE_CHECKING:
    from workbench.vendor.disk import Progress
    from workbench.vendor.manifest import Manifest
    from workbench.vendor.store import Damaged, Stored

WHERE = "Where the libraries are kept"

Release = Annotated[str, typer.Argument(metavar="RELEASE", help="As in vllm==0.26.0.")]
Root = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FOLDER",
        help="The store's folder; by default $TOPK_WORKBENCH_VENDOR, else in the user's cache.",
        rich_help_panel=WHERE,
    ),
]


def add(
    sources: Annotated[
        list[str], typer.Argument(metavar="RELEASE|FILE", help="As in vllm==0.26.0, or a wheel's file.")
    ],
    sha256: Annotated[
        str | None, typer.Option("--sha256", metavar="HEX", help="What the whole wheel must have; for one wheel.")
    ] = None,
    machine: Annotated[str, typer.Option(metavar="x86_64|aarch64", help="Of the wheel that is fetched.")] = "x86_64",
    python: Annotated[str, typer.Option(metavar="3.N", help="The Python that the wheel must run on.")] = "3.12",
    store: Root = None,
    json: Json = False,
) -> int:
    """Fetch a release's wheel with pip and keep the libraries in it that register a selector op; the wheel goes.

    pip's configuration decides which index is asked. Wheels for Linux are fetched on every host. A release that is
    there already stays as it is. Of several, the first that fails ends the command; those before it stay added.

    workbench vendor add vllm==0.26.0 sglang-kernel==0.4.6
    workbench vendor add vllm-0.26.0-cp38-abi3-manylinux_2_28_x86_64.whl --sha256 HEX
    """
    from workbench.vendor.store import add as add_release

    if sha256 is not None and len(sources) > 1:
        raise UsageError("--sha256 is of one wheel; add the others apart")
    documents: list[dict[str, object]] = []
    for source in sources:
        try:
            with _progress() as progress:
                added = add_release(
                    source, sha256=sha256, machine=machine, python=python, root=store, progress=progress
                )
        except WorkbenchError as error:
            if json and documents:  # those are in the store, which the one document must say
                failed = {"source": source, "error": str(error)}
                print_json({"command": "vendor add", "releases": documents, "failed": failed})
            raise
        documents.append({"added": added.fresh, **_document(added.stored)})
        if not json:
            said = "Added" if added.fresh else "There already:"
            say(f"{said} {added.stored.release}")
            _print_release(added.stored)
            _print_not_run(added.stored.manifest.ops)
    if json:
        print_json({"command": "vendor add", "releases": documents})
    return CLEAN


def list_(store: Root = None, json: Json = False) -> int:
    """List the releases that are kept: their ops, the CUDA runtime and architectures of their code, and their torch.

    workbench vendor list
    workbench vendor list --json
    """
    from workbench.vendor.store import scan, store_root

    stored, damaged = scan(store)
    root = str(store_root(store))
    if json:
        damaged_documents = [
            {"release": one.release, "folder": str(one.folder), "reason": one.reason} for one in damaged
        ]
        print_json(
            {
                "command": "vendor list",
                "store": root,
                "releases": [_document(one) for one in stored],
                "damaged": damaged_documents,
            }
        )
        return CLEAN
    if not stored and not damaged:
        say(f"No release is kept in {root}; add one with: workbench vendor add vllm==0.26.0")
    if stored:
        _print_manifests(one.manifest for one in stored)
        say(f"{counted(len(stored), 'release')}, {_size(sum(one.manifest.size for one in stored))}, in {root}")
        _print_not_run(op for one in stored for op in one.manifest.ops)
    _print_damaged(damaged)
    return CLEAN


def remove(
    release: Release,
    store: Root = None,
    json: Json = False,
) -> int:
    """Remove one release from the store, whole or damaged.

    workbench vendor remove vllm==0.26.0
    """
    from workbench.vendor.release import parse_wheel
    from workbench.vendor.store import remove as remove_release

    wheel = parse_wheel(release)
    with _progress() as progress:
        folder = remove_release(wheel, store, progress)
    if json:
        print_json({"command": "vendor remove", "release": str(wheel), "folder": str(folder)})
    else:
        say(f"Removed {wheel} from {folder}.")
    return CLEAN


def pack(
    releases: Annotated[
        list[str], typer.Argument(metavar="RELEASE|RANGE", help="As in vllm==0.26.0, or vllm==0.20.2..0.33.0.")
    ],
    arch: Annotated[
        list[str], typer.Option("--arch", metavar="sm_90", help="An architecture to keep; may be repeated.")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The pack to write, as in pack.tar.xz.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    store: Root = None,
    json: Json = False,
) -> int:
    """Write releases that are kept to one small archive, for a machine without network.

    The code of other architectures is blanked in the libraries, which makes them some ten times smaller in the archive.
    The same releases give the same bytes. A range takes what is kept between its ends, both included.

    workbench vendor pack vllm==0.26.0 sglang-kernel==0.4.6 --arch sm_90 -o pack.tar.xz
    workbench vendor pack vllm==0.20.2..0.33.0 --arch sm_90 --arch sm_100 -o pack.tar.xz
    """
    from workbench.targets import check_target
    from workbench.vendor.fatbin import parse_arch
    from workbench.vendor.pack import CURE
    from workbench.vendor.pack import pack as write_pack

    archs = [parse_arch(text) for text in arch]
    chosen = _chosen(releases, store)
    from pathlib import Path

    check_target(Path(output), output, overwrite=force, cure=CURE)
    with _progress() as progress:
        packed = write_pack(chosen, archs, output, force=force, progress=progress)
    if json:
        from workbench.vendor.manifest import as_json

        print_json(
            {
                "command": "vendor pack",
                "file": output,
                "size": packed.size,
                "releases": [as_json(one) for one in packed.manifests],
                "left_out": [{"release": release, "library": library} for release, library in packed.left_out],
            }
        )
        return CLEAN
    _print_manifests(packed.manifests)
    say(f"Wrote {counted(len(packed.manifests), 'release')} to {output}, {_size(packed.size)}.")
    if packed.left_out:
        say(f"Left out, since no GPU of {' or '.join(arch)} loads them:")
        lines(f"{library} of {release}" for release, library in packed.left_out)
    return CLEAN


def unpack(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What workbench vendor pack wrote.")],
    force: Annotated[bool, typer.Option("--force", help="Replace releases that are there already.")] = False,
    store: Root = None,
    json: Json = False,
) -> int:
    """Put the releases of a pack into the store, each library held against its sha256; on any error none of them.

    workbench vendor unpack pack.tar.xz
    """
    from workbench.vendor.pack import unpack as read_pack

    with _progress() as progress:
        unpacked = read_pack(file, store, force=force, progress=progress)
    if json:
        documents = [{"added": one.fresh, **_document(one.stored)} for one in unpacked]
        print_json({"command": "vendor unpack", "file": file, "releases": documents})
        return CLEAN
    fresh = [one.stored for one in unpacked if one.fresh]
    kept = [one.stored.release for one in unpacked if not one.fresh]
    if fresh:
        _print_manifests(one.manifest for one in fresh)
    say(f"Unpacked {counted(len(fresh), 'release')} from {file}.")
    if kept:
        say(f"There already, and left as they are (--force replaces them): {', '.join(kept)}.")
    return CLEAN


def _chosen(texts: Iterable[str], store: str | None) -> list[Stored]:
    """The kept releases that names and ranges say, each once."""
    from workbench.vendor.release import parse_range
    from workbench.vendor.store import find, releases_between

    chosen: dict[str, Stored] = {}
    for text in texts:
        least, most = parse_range(text)
        wheels = [least] if least == most else releases_between(least, most, store)
        if not wheels:
            raise UsageError(
                f"no release of {text} is in the store; add those to pack with: workbench vendor add {least}"
            )
        chosen.update({str(wheel): find(wheel, store) for wheel in wheels})
    return list(chosen.values())


def _document(stored: Stored) -> dict[str, object]:
    from workbench.vendor.manifest import as_json

    manifest = stored.manifest
    derived = {"ops": manifest.ops, "cuda": manifest.cuda, "architectures": manifest.architectures}
    about = {"release": stored.release, "folder": str(stored.folder), "size": manifest.size}
    return {**about, **derived, "manifest": as_json(manifest)}


def _print_manifests(manifests: Iterable[Manifest]) -> None:
    table(
        [
            Column("release", "word"),
            Column("ops", "text"),
            Column("CUDA"),
            Column("architectures", "text"),
            Column("size"),
            Column("torch", "text"),
        ],
        [
            (
                one.wheel,
                ", ".join(op.partition(".")[2] for op in one.ops),
                one.cuda,
                _archs(one),
                _size(one.size),
                None if one.torch is None else one.torch.removeprefix("torch"),
            )
            for one in manifests
        ],
    )


def _print_release(stored: Stored) -> None:
    manifest = stored.manifest
    facts(
        [
            ("ops", ", ".join(manifest.ops)),
            ("libraries", ", ".join(f"{one.file} ({_size(one.size)})" for one in manifest.libraries)),
            ("CUDA runtime", manifest.cuda),
            ("architectures", _archs(manifest)),
            ("torch", "none required" if manifest.torch is None else manifest.torch),
            ("wheel", f"{manifest.file}, sha256 {manifest.sha256}"),
            ("folder", stored.folder),
        ]
    )


def _print_damaged(damaged: Iterable[Damaged]) -> None:
    for one in damaged:
        say(f"Damaged: {one.release}: {one.reason}", "red")


def _print_not_run(ops: Iterable[str]) -> None:
    from workbench.vendor.schemas import NOT_RUN

    for op in dict.fromkeys(op for op in ops if op in NOT_RUN):
        say(f"{op} is registered and kept, but the vendor engine does not run it: {NOT_RUN[op]}")


def _archs(manifest: Manifest) -> str:
    """As in ``sm_80, sm_90`` or ``sm_90 of a pack``; the code for one GPU or family stands for its architecture."""
    if manifest.packed_for:
        return f"{', '.join(manifest.packed_for)} (packed)"
    plain = [name.rstrip("af") for name in manifest.architectures if name.startswith("sm_")]
    ptx = [name for name in manifest.architectures if not name.startswith("sm_")]
    return ", ".join(dict.fromkeys([*plain, *(["PTX"] if ptx else [])])) or "none"


def _size(count: int) -> str:
    """Bytes in decimal units, as in ``78.8 MB``."""
    if count < 1000:
        return f"{count} B"
    value, unit = next(
        (count / scale, unit) for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= scale
    )
    return f"{value:.1f} {unit}"


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show on stderr what is done, with a bar if stderr is a terminal; waiting for another process is always said."""
    if not sys.stderr.isatty():
        yield _plainly
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        said, at = "", 0.0

        def show(what: str, done: int, total: int | None) -> None:
            nonlocal said, at
            if what == said and time.monotonic() - at < 0.1 and done != total:
                return
            said, at = what, time.monotonic()
            bar.update(task, description=printable(what), completed=done, total=total)

        yield show


def _plainly(what: str, done: int, _total: int | None) -> None:
    if what.startswith("waiting") and not done:
        complain(what)


def vendor(context: typer.Context) -> int:
    """Released libraries that register selector ops: out of wheels, kept in a user's cache.

    workbench vendor add vllm==0.26.0
    workbench vendor list
    workbench vendor pack vllm==0.26.0 --arch sm_90 -o pack.tar.xz
    """
    if context.invoked_subcommand is None:
        print(context.get_help())
        return BAD
    return CLEAN


COMMANDS: dict[str, Callable[..., int]] = {
    "add": add,
    "list": list_,
    "remove": remove,
    "pack": pack,
    "unpack": unpack,
}


def build(help_of: Callable[[Callable[..., int]], str]) -> typer.Typer:
    """The group of commands, whose help is laid out by ``help_of``."""
    group = typer.Typer(cls=Group, rich_markup_mode="rich", epilog=EXIT_CODES)
    group.callback(invoke_without_command=True, help=help_of(vendor))(vendor)
    for name, command in COMMANDS.items():
        group.command(name, cls=Command, help=help_of(command), epilog=EXIT_CODES)(command)
    return group
