"""NumPy's arrays and archives: rows bit for bit, and every way in which a header can lie."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbench.capture import open_capture
from workbench.capture.readers import archive
from workbench.errors import CaptureError

Refusal = Callable[..., str]
Same = Callable[[torch.Tensor, torch.Tensor], bool]


def scores(dtype: Any = np.float32, rows: int = 3, width: int = 40) -> np.ndarray[Any, Any]:
    made = np.random.default_rng(1).normal(size=(rows, width)).astype(dtype)
    made[0, :3] = np.nan, -0.0, np.inf
    return made


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_one_array_bears_the_name_of_its_file(tmp_path: Path, same_bits: Same, dtype: Any) -> None:
    made = scores(dtype)
    np.save(tmp_path / "any.name.npy", made)
    with open_capture(tmp_path / "any.name.npy", k=4) as capture:
        assert capture.info.format == "NumPy .npy"
        assert capture.info.used == ("any",)
        assert all(same_bits(row.scores, torch.from_numpy(made[row.index])) for row in capture)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_stored_and_compressed(tmp_path: Path, same_bits: Same, save: Callable[..., None]) -> None:
    made = scores()
    save(
        tmp_path / "x.npz", logits=made, seq_lens=np.array([40, 3, 1]), indices=np.array([[0], [2], [0]]), k=np.int64(1)
    )
    with open_capture(tmp_path / "x.npz") as capture:
        assert all(same_bits(row.scores, torch.from_numpy(made[row.index])) for row in capture)
        assert capture.lengths.tolist() == [40, 3, 1]
        assert capture.call(0).k == 1
        assert capture.verify() == []
        assert capture.digest_of(1) == capture[1].digest


def test_a_stored_array_is_not_read_before_its_rows_are(tmp_path: Path) -> None:
    wide = np.lib.format.open_memmap(tmp_path / "logits.npy", "w+", np.float32, (1000, 2_000_000))  # 8 GB, sparse
    wide[999, -1] = 7.0
    del wide
    with open_capture(tmp_path / "logits.npy") as capture:
        assert float(capture[999].scores[-1]) == 7.0


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (scores(">f4"), "big-endian; save it after array.astype(array.dtype.newbyteorder('='))"),
        (np.asfortranarray(scores()), "Fortran order; save numpy.ascontiguousarray(array)"),
        (scores(np.float64), "dtype is float64; float32 or bfloat16 or float16 is needed; ask for them as float32"),
        (np.array([[1, 2]]), "dtype is int64"),
        (np.array(["a", "b"]), "an array of texts"),
        (np.array([b"a"]), "an array of bytes"),
        (np.zeros(3, dtype=[("a", "f4"), ("b", "f4")]), "named fields"),
        (np.zeros((2, 3), dtype="datetime64[s]"), "an array of dates"),
        (np.zeros((2, 3), dtype=np.complex64), "dtype is complex64"),
        (np.zeros((2, 3), dtype=np.longdouble), "dtype is float128"),
        (np.float32(3), "shape is []"),
        (np.zeros((0, 3), np.float32), "there are no scores"),
        (
            np.zeros((2, 3), dtype="V2"),
            "dtype is void16; float32 or bfloat16 or float16 is needed; ask for them as bfloat16",
        ),
    ],
)
def test_what_is_no_row_is_refused_with_the_cure(tmp_path: Path, refusal: Refusal, array: Any, words: str) -> None:
    np.save(tmp_path / "x.npy", array)
    assert words in refusal(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", scores=array)
    assert words in refusal(tmp_path / "x.npz")


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.path}",))


def test_objects_are_never_unpickled(tmp_path: Path, refusal: Refusal) -> None:
    array = np.array([Harmful(tmp_path / "ran")], dtype=object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    assert "a pickle and never read" in refusal(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", scores=array, other=np.ones(3))
    assert "a pickle and never read" in refusal(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", scores=np.ones((1, 3), np.float32), other=array)
    with open_capture(tmp_path / "y.npz") as capture:  # what is not used does not stand in the way
        assert capture.info.left == ("'other' object [1]",)
        assert capture.verify() == []
    assert not (tmp_path / "ran").exists()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 5)}\n", bytes(36)), "36 bytes follow"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 5)}\n", bytes(44)), "44 bytes follow"),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9)}\n", bytes(8)),
            "bytes follow",
        ),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 5)}\n", bytes(20)),
            "shape in its header is damaged",
        ),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 5)}\n", bytes(20)),
            "shape in its header is damaged",
        ),
        (npy("{'descr': '<f4', 'fortran_order': 7, 'shape': (1,)}\n", bytes(4)), "header is damaged"),
        (npy("{'descr': '<q9', 'fortran_order': False, 'shape': (1,)}\n", bytes(4)), "header is damaged"),
        (npy("__import__('os').system('true')\n", bytes(4)), "header is damaged"),
        (npy("(" * 9000), "header is damaged"),
        (npy(" " * 60_000), "header is damaged"),
        (b"\x93NUMPY\x09\x00", "header is damaged"),
        (b"\x93NUMPY", "header is damaged"),
    ],
)
def test_headers_that_lie(tmp_path: Path, refusal: Refusal, content: bytes, words: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    assert words in refusal(tmp_path / "x.npy")


def zipped(path: Path, content: bytes, name: str = "scores.npy") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    return path


def test_a_bomb_is_refused_before_it_is_inflated(
    tmp_path: Path, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MOST_INFLATED", 2**20)
    head = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1000000)}\n")
    assert "holds 4000074 bytes; 1048576 is the most here" in refusal(
        zipped(tmp_path / "x.npz", head + bytes(4_000_000))
    )


def test_a_member_that_inflates_to_more_than_it_claims(tmp_path: Path, refusal: Refusal) -> None:
    head = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 100)}\n")
    path = zipped(tmp_path / "x.npz", head + bytes(400_000))
    content = path.read_bytes()
    size, claimed = (len(head) + 400_000).to_bytes(4, "little"), (len(head) + 400).to_bytes(4, "little")
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, claimed))
    assert "inflates to more than" in refusal(path)


def test_a_flipped_bit_in_a_compressed_member_is_found(tmp_path: Path, refusal: Refusal) -> None:
    np.savez_compressed(tmp_path / "x.npz", scores=scores(width=4000))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "x.npz").write_bytes(content)
    text = refusal(tmp_path / "x.npz")
    assert "checksum differs" in text or "cannot be inflated" in text


def test_members_that_share_bytes_are_refused(tmp_path: Path, refusal: Refusal) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("scores.npy", "zcores.npy"):
            file.writestr(name, npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 9)}\n", bytes(36)))
        second = file.getinfo("zcores.npy")
        second.header_offset = 0
    assert "overlaps another" in refusal(path)


def test_encrypted_and_unknown_members_are_refused(tmp_path: Path, refusal: Refusal) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, scores=scores())
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")
    content[at + 8] |= 1
    path.write_bytes(content)
    assert "encrypted" in refusal(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("scores.npy", b"x")
    assert "method 14" in refusal(path)


def test_a_closed_archive_reads_no_more(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", scores=scores())
    capture = open_capture(tmp_path / "x.npz")
    capture.close()
    with pytest.raises(CaptureError, match="closed"):
        capture[0]
