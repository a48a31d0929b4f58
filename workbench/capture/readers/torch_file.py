"""Files of ``torch.save``: tensors, or dicts and lists of them.

The archive is read by byte ranges and its pickle is described rather than unpickled (``pickled.py``), so that rows are
read as they are asked for and no code of a file can run. Byte order, records and strides are as torch 1.6 to 2.13
write them.
"""

from __future__ import annotations

from pathlib import Path

from workbench.capture.foreign import CONTIGUOUS
from workbench.capture.header import TensorInfo
from workbench.capture.readers import archive
from workbench.capture.readers.dump import Dump, Held, gather, nested, stem
from workbench.capture.readers.look import Look
from workbench.capture.readers.pickled import MOST_BYTES, Global, Other, Storage, Strided, describe, flat
from workbench.capture.source import Source
from workbench.capture.values import brief, described, shape_text, shown
from workbench.errors import CaptureError
from workbench.words import listed

FORMAT = "torch.save"
_PICKLE = "/data.pkl"
_AGAIN = "torch.save(torch.load(path, weights_only=True), path)"


def detects(look: Look) -> bool:
    """Whether this is a file of ``torch.save``, of any age."""
    return look.has_member(_PICKLE) or _is_pickle(look.first)


def _is_pickle(first: bytes) -> bool:
    """Whether a file begins as pickles do, and not as a safetensors header of some length."""
    return first[:1] == b"\x80" and first[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and first[8:9] != b"{"


def read(look: Look) -> Dump:
    """The tensors of one file."""
    held = open_file(look.path)
    tensors, values = gather(look.file, [("", held)])
    said = {name: words(value) for name, value in values.items()}
    alone = next(iter(held.tensors)) if held.bare else None
    return Dump(FORMAT, look.path, tensors, lambda: nested(held.tensors, held.values), alone=alone, values=said)


def open_file(path: Path) -> Held:
    """The tensors of a file by dotted paths; a bare tensor bears the name of the file, up to its first dot.

    Raises:
        CaptureError: it is none, needs code to be run, or is damaged.
    """
    source = Source(path, header=False)
    try:
        return _held(source)
    except BaseException:
        source.close()
        raise


def _held(source: Source) -> Held:
    first = bytes(source.read(0, min(16, source.size)))
    if _is_pickle(first):
        raise CaptureError(
            "a pickle outside an archive, as torch.save wrote before PyTorch 1.6 and pickle.dump writes, is not read; "
            f"load it where you trust it and save it again: {_AGAIN}",
            file=source.file,
        )
    if not first.startswith(archive.MAGIC):
        raise CaptureError("not a file of torch.save", file=source.file)
    members = archive.read_directory(source)
    prefix = _prefix(members, source)
    order = members.get(f"{prefix}/byteorder")
    if order is not None and archive.content(source, order, 16).strip() != b"little":
        raise CaptureError(
            f"its numbers are big-endian; save it on a little-endian machine: {_AGAIN}", file=source.file
        )
    value = describe(archive.content(source, members[prefix + _PICKLE], MOST_BYTES), source.file)
    held = Held(source, {}, bare=isinstance(value, Strided))
    begins: dict[str, int] = {}
    for path, leaf in flat(value, source.file):
        name = path or stem(source.path)
        if isinstance(leaf, Strided):
            record = members.get(f"{prefix}/data/{leaf.storage.key}")
            held.tensors[name] = _place(name, leaf, record, begins, source)
        else:
            held.values[name] = leaf
    return held.finish()


def _prefix(members: dict[str, archive.Member], source: Source) -> str:
    found = [name.removesuffix(_PICKLE) for name in members if name.endswith(_PICKLE) and name.count("/") == 1]
    if len(found) != 1:
        raise CaptureError("the archive is no file of torch.save: it holds no one data.pkl", file=source.file)
    if f"{found[0]}/constants.pkl" in members:
        raise CaptureError(
            "this is a TorchScript program, which is code and not read; save its tensors with torch.save",
            file=source.file,
        )
    return found[0]


def _place(
    name: str, tensor: Strided, record: archive.Member | None, begins: dict[str, int], source: Source
) -> TensorInfo:
    """Where the elements of a tensor lie in the file."""
    storage: Storage = tensor.storage
    if record is None or record.deflated or record.size != storage.count * storage.size:
        there = "is missing" if record is None else "is compressed" if record.deflated else f"has {record.size} bytes"
        raise CaptureError(
            f"the record of its {storage.count} elements {there}; save the file again",
            file=source.file,
            tensor=brief(name),
        )
    if storage.key not in begins:
        begins[storage.key] = archive.begin_of(source, record)
    begin = begins[storage.key] + tensor.offset * tensor.size
    shape, strides = tensor.shape, tensor.strides
    count = 1
    for extent in shape:
        count *= extent
    if tensor.marked:
        problem = f"torch reads it as {listed(tensor.marked)} of what is stored; save it after .resolve_neg()"
        return TensorInfo(name, tensor.dtype, shape, begin, begin, problem=problem)
    if count == 0:
        return TensorInfo(name, tensor.dtype, shape, begin, begin)
    if _contiguous(shape, strides):
        return TensorInfo(name, tensor.dtype, shape, begin, begin + count * tensor.size)
    if len(shape) == 2 and (strides[1] == 1 or shape[1] == 1) and strides[0] >= shape[1]:
        cells = (shape[0] - 1) * strides[0] + shape[1]
        return TensorInfo(name, tensor.dtype, shape, begin, begin + cells * tensor.size, pitch=strides[0])
    problem = (
        f"its elements do not lie in order (shape {shape_text(shape)}, strides {shape_text(strides)}); {CONTIGUOUS}"
    )
    return TensorInfo(name, tensor.dtype, shape, begin, begin, problem=problem)


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    needed = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != needed:
            return False
        needed *= extent
    return True


def words(value: object) -> str:
    """A value that is no tensor in a few words."""
    if isinstance(value, Other):
        return value.words
    if isinstance(value, Global):
        return shown(brief(value.name))
    if isinstance(value, Storage):
        return f"a storage of {value.count} {value.dtype}"
    return shown(described(value))
