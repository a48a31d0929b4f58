"""The looks of ``doctor`` at what is kept: released libraries, compiled kernels, samples, folders, and settings."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.resources import DISTRIBUTION, VARIABLES, samples_dir
from workbench.runs.doctor import Fact, State
from workbench.runs.looks_common import GIB, cure_in, size_text

LEAST_FREE = 2 * GIB  # below it a wheel of a serving engine does not fit
OF_OTHERS = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "RAY_ADDRESS", "PYTHONPATH")


def kernel_cache(folder: Path) -> Fact:
    kept = list(folder.glob("*.cubin")) if folder.is_dir() else []
    size = sum(one.stat().st_size for one in kept)
    details = {"folder": str(folder), "kernels": len(kept), "bytes": size}
    if folder.exists() and not folder.is_dir():
        why, cure = "something else than a folder lies there", "name another folder in TOPK_WORKBENCH_KERNELS"
        return Fact("storage", "compiled kernels", str(folder), "broken", why, cure, details)
    return _folder("compiled kernels", folder, f"{len(kept)} kernels, {size_text(size)}", details)


def releases(verify: bool) -> Iterator[Fact]:
    from workbench.vendor.store import scan, store_root

    try:
        root = store_root()
        stored, damaged = scan()
    except WorkbenchError as error:
        yield Fact("releases", "store", "cannot be read", "broken", str(error))
        return
    total = sum(one.manifest.size for one in stored)
    said = f"{len(stored)} releases, {size_text(total)}" if stored else "empty"
    yield Fact("releases", "store", f"{said}, in {root}", details={"folder": str(root), "bytes": total})
    for one in stored:
        size = {"bytes": one.manifest.size, "folder": str(one.folder)}
        try:
            if verify:
                one.verify()
            else:
                _sizes(one)
        except WorkbenchError as error:
            yield Fact("releases", one.release, "damaged", "broken", str(error), cure_in(str(error)), size)
        else:
            seen = "sha256 as stored" if verify else "sizes as stored"
            ops = ", ".join(op.partition(".")[2] for op in one.manifest.ops)
            yield Fact("releases", one.release, f"{size_text(one.manifest.size)}, {seen}: {ops}", details=size)
    for bad in damaged:
        yield Fact("releases", bad.release, "damaged", "broken", bad.reason, cure_in(bad.reason))


def _sizes(stored: Any) -> None:
    """Raise VendorError for the first library that is gone or has another size."""
    for library in stored.manifest.libraries:
        path = stored.folder / library.file
        if not path.is_file() or path.stat().st_size != library.size:
            stored.verify()  # which says what is wrong, and what to do


def storage() -> Iterator[Fact]:
    import platformdirs

    yield _folder("cache", platformdirs.user_cache_path(DISTRIBUTION))
    yield _folder("temporary files", Path(tempfile.gettempdir()))
    try:
        samples = samples_dir()
        found = sorted(samples.glob("*.safetensors"))
    except (OSError, WorkbenchError) as error:
        yield Fact("storage", "sample captures", "not there", "broken", str(error), "install the workbench again")
        return
    state: State = "fine" if found else "broken"
    yield Fact(
        "storage",
        "sample captures",
        f"{len(found)} in {samples}",
        state,
        "" if found else "the folder is empty",
        "" if found else "install the workbench again",
        {"files": [one.name for one in found]},
    )


def _folder(name: str, folder: Path, holds: str = "", details: dict[str, Any] | None = None) -> Fact:
    """A folder that the workbench writes to, or would make, and the room that its disk has."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(there).free
    told = {**(details or {}), "folder": str(folder), "free_bytes": free}
    said = "; ".join(text for text in (str(folder), holds, f"{size_text(free)} free") if text)
    if not os.access(there, os.W_OK | os.X_OK):
        return Fact("storage", name, said, "broken", f"{there} cannot be written to", "", told)
    if free < LEAST_FREE:
        why = f"less than {size_text(LEAST_FREE)} is free: a release's wheel may not fit"
        return Fact("storage", name, said, "absent", why, "", told)
    return Fact("storage", name, said, details=told)


def variables() -> Iterator[Fact]:
    for name, decides in VARIABLES.items():
        value = os.environ.get(name)
        yield Fact("variables", name, f"{value or 'not set'}: {decides}", details={"value": value})
    for name in OF_OTHERS:
        value = os.environ.get(name)
        if value is not None:
            yield Fact("variables", name, value or "empty", details={"value": value})
