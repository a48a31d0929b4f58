"""What a pickle of ``torch.save`` describes, without unpickling it.

A pickle is a program. The few instructions that tensors, containers and plain values need are followed here, and yield
descriptions: no class is looked up, nothing is imported, called or constructed, so that no code of a file can run. The
globals that are understood are data, ``_CALLS``; they are some of those that ``torch.load(weights_only=True)`` allows
(the tests hold one against the other), and process-wide additions to its list do not count here. A file that names any
other is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.capture.strictjson import short
from workbench.capture.values import brief, shape_text, shown
from workbench.errors import CaptureError

MOST_BYTES = 64 * 2**20
MOST_STEPS = 4_000_000
MOST_PARTS = 1_000_000
MOST_DEEP = 32
MOST_EXTENTS = 64

# Class of a storage -> (dtype in words, bytes per element).
STORAGES = {
    "FloatStorage": ("float32", 4),
    "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2),
    "DoubleStorage": ("float64", 8),
    "LongStorage": ("int64", 8),
    "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2),
    "CharStorage": ("int8", 1),
    "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1),
    "ComplexFloatStorage": ("complex64", 8),
    "ComplexDoubleStorage": ("complex128", 16),
    "UntypedStorage": ("uint8", 1),
}
_SIZES = dict(STORAGES.values()) | {
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}


@dataclass(frozen=True)
class Storage:
    """The numbers of one or several tensors: the record that holds them, their dtype, and how many there are."""

    key: str
    dtype: str
    size: int
    count: int


@dataclass(frozen=True)
class Strided:
    """A dense tensor: its storage, dtype in words, bytes per element, first element, shape and strides in elements.

    ``marked`` names the marks under which torch reads other values than are stored, as ``neg`` or ``conj``.
    """

    storage: Storage
    dtype: str
    size: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    marked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Other:
    """A value that is no tensor, container, number or text: what it is, in words."""

    words: str


@dataclass(frozen=True)
class Global:
    """Something that a module holds, by its name; nothing is looked up."""

    name: str


class _Mark:
    """Where the items of a container begin on the stack."""


class _UnusableError(Exception):
    """Why a pickle is not read."""


def describe(text: bytes, file: str) -> Any:
    """The object of a pickle: dicts, lists, tuples, numbers, texts, and ``Strided`` in the place of tensors.

    Raises:
        CaptureError: it needs code to be run, is damaged, or larger than what is read.
    """
    try:
        return _run(text)
    except _UnusableError as error:
        raise CaptureError(str(error), file=file) from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        # pickletools raises ValueError; the others are stacks that do not hold what an instruction takes
        raise CaptureError("its pickle is damaged; save the file again", file=file) from None


def flat(value: Any, file: str) -> Iterator[tuple[str, Any]]:
    """Every leaf by its dotted path: keys of dicts, numbers of lists; the path of a bare value is empty.

    Raises:
        CaptureError: nested too deeply, of too many parts, or with two parts of one name.
    """
    seen: set[str] = set()
    left = MOST_PARTS

    def walk(value: Any, path: str, deep: int) -> Iterator[tuple[str, Any]]:
        nonlocal left
        left -= 1
        if left < 0 or deep > MOST_DEEP:  # parts may hold each other, or one another many times
            limit = f"more than {MOST_PARTS} parts" if left < 0 else f"parts nested more than {MOST_DEEP} deep"
            raise CaptureError(f"it has {limit}; save its tensors in one dict", file=file)
        if isinstance(value, dict):
            items: Any = value.items()
        elif isinstance(value, list | tuple):
            items = enumerate(value)
        else:
            if path in seen:
                raise CaptureError(f"it names {brief(path)!r} twice; save the file again", file=file)
            seen.add(path)
            yield path, value
            return
        for key, item in items:
            name = key if isinstance(key, str) else short(key)
            try:
                name.encode()
            except UnicodeEncodeError:
                raise CaptureError(f"{shown(brief(name))} is no text; save the file again", file=file) from None
            yield from walk(item, f"{path}.{name}" if path else name, deep + 1)

    yield from walk(value, "", 0)


def _run(text: bytes) -> Any:
    """Follow the instructions of a pickle."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}

    def marked() -> list[Any]:
        at = len(stack) - 1
        while not isinstance(stack[at], _Mark):
            at -= 1
            if at < 0:
                raise IndexError
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def put(pairs: list[Any]) -> None:
        target = stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise TypeError
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str | int | float | bytes | tuple | None):
                raise TypeError
            name = short(key) if isinstance(key, tuple) else key
            if name in target:
                raise _UnusableError(f"it names {shown(short(name))} twice; save the file again")
            target[name] = value

    def extend(items: list[Any]) -> None:
        if not isinstance(stack[-1], list):
            raise TypeError
        stack[-1].extend(items)

    arg: Any
    for steps, (code, arg, _) in enumerate(pickletools.genops(text)):
        name = code.name
        if steps > MOST_STEPS:
            raise _UnusableError(f"its pickle has more than {MOST_STEPS} steps; save its tensors alone")
        if name in ("PROTO", "FRAME"):
            continue
        if name == "STOP":
            return stack.pop()
        if name in _VALUES:
            stack.append(arg)
        elif name in _NEW:
            stack.append(_NEW[name]())
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[arg] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[arg])
        elif name == "TUPLE":
            stack.append(tuple(marked()))
        elif name in _TUPLES:
            count = _TUPLES[name]
            if len(stack) < count:
                raise IndexError
            stack[-count:] = [tuple(stack[-count:])]
        elif name in ("APPEND", "APPENDS", "ADDITEMS"):
            extend([stack.pop()] if name == "APPEND" else marked())
        elif name == "SETITEM":
            pair = stack[-2:]
            del stack[-2:]
            put(pair)
        elif name == "SETITEMS":
            put(marked())
        elif name == "GLOBAL":
            stack.append(_global(arg.replace(" ", ".", 1)))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(_global(f"{module}.{attribute}"))
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            given = stack.pop()
            stack.append(_reduced(stack.pop(), given))
        elif name == "BUILD":  # attributes of an OrderedDict, as state dicts have
            if not isinstance(stack[-2], dict):
                raise _UnusableError(_NEEDS.format("an object's own __setstate__"))
            stack.pop()
        elif name in ("NEWOBJ", "NEWOBJ_EX", "INST", "OBJ", "PERSID", "EXT1", "EXT2", "EXT4"):
            raise _UnusableError(_NEEDS.format("a class to be made"))
        else:
            raise _UnusableError(f"its pickle has the instruction {name}, which torch.save never writes; save it again")
    raise ValueError


_NEEDS = (
    "reading it would run code ({}), which is never done; load it where you trust it and save its tensors alone: "
    "torch.save({{'scores': scores, 'lengths': lengths}}, path)"
)
_VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
}  # fmt: skip
_NEW: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
    "MARK": _Mark,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _global(name: str) -> Global:
    module, _, attribute = name.rpartition(".")
    known = (
        name in _CALLS
        or (module in ("torch", "torch.storage") and attribute in STORAGES)
        or (module == "torch" and attribute in _SIZES)
    )
    if not known:
        raise _UnusableError(_NEEDS.format(f"of {shown(brief(name))}"))
    return Global(name)


def _storage(given: Any) -> Storage:
    kind, storage, key, _, count = given
    if kind != "storage" or not isinstance(storage, Global) or not isinstance(key, str) or not _is_size(count):
        raise TypeError
    dtype, size = STORAGES[storage.name.rpartition(".")[2]]
    return Storage(key, dtype, size, count)


def _reduced(function: Any, given: Any) -> Any:
    if not isinstance(function, Global) or not isinstance(given, tuple) or function.name not in _CALLS:
        raise TypeError
    return _CALLS[function.name](*given)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, _: Any, __: Any, marks: Any = None) -> Strided:
    return _strided(storage, storage.dtype, storage.size, offset, shape, strides, marks)


def _typed(
    storage: Any, offset: Any, shape: Any, strides: Any, _: Any, __: Any, dtype: Any, marks: Any = None
) -> Strided:
    """A tensor of a dtype that has no storage class of its own: the storage counts bytes."""
    name = dtype.name.rpartition(".")[2]
    return _strided(storage, name, _SIZES[name], offset, shape, strides, marks)


def _strided(storage: Any, dtype: str, size: int, offset: Any, shape: Any, strides: Any, marks: Any) -> Strided:
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise TypeError
    if len(shape) > MOST_EXTENTS or len(shape) != len(strides):
        raise TypeError
    if not all(map(_is_size, (offset, *shape, *strides))):
        raise TypeError
    held = storage.count * storage.size // size
    last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if (0 in shape and offset > held) or (0 not in shape and last >= held):
        raise _UnusableError(f"a tensor of shape {shape_text(shape)} leaves its {held} elements; save the file again")
    if marks is not None and not isinstance(marks, dict):
        raise TypeError
    marked = tuple(short(name) for name, value in (marks or {}).items() if value is not False)
    return Strided(storage, dtype, size, offset, shape, strides, marked)


def _items(items: Any = ()) -> Any:
    if not isinstance(items, list | tuple):
        raise TypeError
    return items


# What may be called -> what describes its result. None copies what it is given: it may be given it a million times.
_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed,
    "torch._utils._rebuild_parameter": lambda data, *_: data,
    "collections.OrderedDict": dict,
    "collections.Counter": lambda counts=(): counts,
    "torch.Size": _items,
    "torch.device": lambda kind, number="": Other(f"device {short(kind)} {short(number)}"),
    "torch.serialization._get_layout": lambda name: Other(f"layout {short(name)}"),
    "_codecs.encode": lambda text, *_: Other(f"{len(text)} bytes"),
    "builtins.set": _items,
    "__builtin__.set": _items,
    "torch._utils._rebuild_sparse_tensor": lambda *_: Other("a sparse tensor"),
    "torch._utils._rebuild_qtensor": lambda *_: Other("a quantized tensor"),
    "torch._utils._rebuild_meta_tensor_no_storage": lambda *_: Other("a tensor without values (meta)"),
}
