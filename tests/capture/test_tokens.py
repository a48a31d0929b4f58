"""Tokens and LM-head rows in captures, and digests of what a selector was given."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import workbench as wb
from tests.capture.test_hostile import little_memory, try_all
from workbench.capture import Call, Capture, Row, Token, open_capture, write_capture
from workbench.capture import write as write_module
from workbench.capture.format import TOKEN_TENSORS
from workbench.errors import CaptureError

Build = Callable[..., Path]

ROWS = [Row(torch.randn(8), 8, call=Call(k=2, step=step)) for step in range(3)]


def i64(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def odd_bits(dtype: torch.dtype, count: int) -> torch.Tensor:
    """Logits with a NaN of either sign and payload, infinities, signed zeros and a subnormal."""
    logits = torch.randn(count, dtype=torch.float32).to(dtype)
    logits[:6] = torch.tensor([float("nan"), -float("nan"), float("inf"), -float("inf"), -0.0, 1e-40]).to(dtype)
    return logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scores", [torch.float32, torch.bfloat16])
def test_what_is_written_is_read_bit_for_bit(tmp_path: Path, dtype: torch.dtype, scores: torch.dtype) -> None:
    path = tmp_path / "x.safetensors"
    logits = [odd_bits(dtype, 11) for _ in range(3)]
    tokens = [Token(5, 10, logits[0]), Token(7, None, logits[1]), Token(5, 0, logits[2])]
    rows = [Row(torch.randn(7).to(scores), 7) for _ in range(3)]
    info = write_capture(path, rows, tokens=iter(tokens))
    capture = open_capture(path)
    assert (info.tokens, info.vocab, info.logits) == (3, 11, str(dtype)[6:])
    assert info == capture.info
    assert [(token.step, token.token) for token in capture.tokens] == [(5, 10), (7, None), (5, 0)]
    for token, written in zip(capture.tokens, logits, strict=True):
        assert token.logits is not None
        assert token.logits.dtype == dtype
        assert torch.equal(token.logits.view(torch.uint8), written.view(torch.uint8))
    assert capture.verify() == []
    assert torch.equal(load_file(path)["tokens"], i64(10, -1, 0))  # the public reader takes the file too
    with safe_open(path, "pt") as reader:
        for name in reader.keys():  # noqa: SIM118
            assert reader.get_tensor(name).data_ptr() % reader.get_tensor(name).element_size() == 0


def test_tokens_are_a_lazy_sequence(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_capture(path, ROWS, tokens=[Token(step, step, torch.randn(5)) for step in range(4)])
    capture = open_capture(path)
    tokens = capture.tokens
    assert len(tokens) == 4
    assert tokens[-1].step == tokens[np.int64(3)].step == 3  # type: ignore[call-overload]
    assert [token.step for token in tokens[1:3]] == [1, 2]
    assert tokens.steps.tolist() == [0, 1, 2, 3]
    for past in (4, -5):
        with pytest.raises(IndexError, match=f"no token {past}"):
            tokens[past]
    with pytest.raises(TypeError, match="a token number is an integer, this is '1'"):
        tokens["1"]  # type: ignore[call-overload]
    capture.close()
    with pytest.raises(CaptureError, match="closed"):
        tokens[0]


def test_without_logits_or_tokens(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for given in ([Token(0, 5), Token(1)], [Token(3)], []):
        assert write_capture(path, ROWS, tokens=given, overwrite=True).tokens == len(given)
        held = open_capture(path).tokens
        assert [(token.step, token.token, token.logits) for token in held] == [
            (token.step, token.token, None) for token in given
        ]
        assert ("tokens" in load_file(path)) == any(token.token is not None for token in given)
    assert list(open_capture(path).tokens) == []
    assert open_capture(path).info.vocab is None


def test_a_copy_keeps_tokens_unless_others_are_given(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.safetensors", tmp_path / "copy.safetensors"
    write_capture(path, ROWS, tokens=[Token(1, 2, torch.arange(4.0))])
    with open_capture(path) as capture:
        write_capture(copy, capture)
        assert open_capture(copy).tokens[0].logits.tolist() == [0.0, 1.0, 2.0, 3.0]  # type: ignore[union-attr]
        held = Capture.from_rows(list(capture), tokens=capture.tokens)
        assert held.info.tokens == 1
        write_capture(copy, capture, tokens=[], overwrite=True)
        assert open_capture(copy).info.tokens == 0


def test_tokens_in_memory() -> None:
    logits = torch.randn(4)
    capture = Capture.from_rows(ROWS, tokens=[Token(0, 3, logits)])
    assert capture.tokens[0].logits is logits
    assert (capture.info.tokens, capture.info.vocab) == (1, 4)
    assert capture.verify() == []
    digests = {
        Capture.from_rows(ROWS, tokens=tokens).digest
        for tokens in ([], [Token(0, 3)], [Token(1, 3)], [Token(0)], [Token(0, 3, logits)], [Token(0, 3, -logits)])
    }
    assert len(digests) == 6
    assert Capture.from_rows(ROWS).info.tokens == 0
    assert wb.Token is Token


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"step": -1}, "'token_steps': step is -1; an integer of 0 or more is needed"),
        ({"step": None}, "step is None"),
        ({"step": 1.0}, "step is 1.0"),
        ({"step": 2**63}, "step is 9223372036854775808; 9223372036854775807 is the most"),
        ({"token": -1}, "'tokens': token is -1; an integer of 0 or more is needed"),
        ({"token": True}, "token is True"),
        ({"token": 4}, "'tokens': token 4 is outside the 4 entries of its logits"),
        ({"logits": [1.0]}, "'logits': logits are list; a torch tensor is needed"),
        ({"logits": torch.zeros(4).double()}, "logits are torch.float64"),
        ({"logits": torch.zeros(1, 4)}, "not of shape [1, 4]"),
        ({"logits": torch.zeros(0)}, "logits are of shape [0]; [vocab] is needed"),
        ({"logits": torch.zeros(4, device="meta")}, "a dense tensor with values is needed"),
    ],
)
def test_what_is_no_token(given: dict[str, Any], words: str) -> None:
    with pytest.raises(CaptureError) as caught:
        Token(**{"step": 0, "token": 1, "logits": torch.zeros(4), **given})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([Token(0, 1, torch.zeros(4)), Token(1, 1)], "token 1 has no logits, token 0 float32 logits over 4"),
        ([Token(0), Token(1, 1, torch.zeros(4))], "token 1 has float32 logits over 4, token 0 no logits"),
        ([Token(0, 1, torch.zeros(4)), Token(1, 1, torch.zeros(5))], "token 1 has float32 logits over 5"),
        ([Token(0, 1, torch.zeros(4)), Token(1, 1, torch.zeros(4).half())], "token 1 has float16 logits over 4"),
        ([Token(0), 3], "token 1 is 3; a Token is needed"),
        (3, "the tokens are 3; a list of Token is needed"),
    ],
)
def test_tokens_that_no_capture_can_hold(tmp_path: Path, tokens: Any, words: str) -> None:
    for make in (
        lambda: Capture.from_rows(ROWS, tokens=tokens),
        lambda: write_capture(tmp_path / "x.safetensors", ROWS, tokens=tokens),
    ):
        with pytest.raises(CaptureError) as caught:
            make()
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


STEPS = {"token_steps": i64(0, 1)}


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"tokens": i64(0)}, "'tokens': a tensor 'token_steps' [tokens] is needed beside it"),
        ({"logits": torch.zeros(2, 4)}, "'logits': a tensor 'token_steps' [tokens] is needed beside it"),
        ({"token_steps": i64()}, "'token_steps': it describes no token"),
        ({"token_steps": i64(0).int()}, "'token_steps': dtype is int32; int64 is needed"),
        ({"token_steps": i64(0).reshape(1, 1)}, "'token_steps': shape is [1, 1]; one dimension is needed"),
        ({"token_steps": i64(0, -1)}, "'token_steps': entry 1: step -1 is negative"),
        ({**STEPS, "tokens": i64(0)}, "'tokens': shape is [1]; [2] is needed"),
        ({**STEPS, "tokens": i64(0, 1).int()}, "'tokens': dtype is int32; int64 is needed"),
        ({**STEPS, "tokens": i64(0, -2)}, "'tokens': entry 1: token -2 is negative"),
        ({**STEPS, "tokens": i64(4, 0), "logits": torch.zeros(2, 4)}, "entry 0: token 4 is outside the 4 entries"),
        ({**STEPS, "logits": torch.zeros(2)}, "'logits': shape is [2]; [2, vocab] is needed for 2 tokens"),
        ({**STEPS, "logits": torch.zeros(3, 4)}, "'logits': shape is [3, 4]; [2, vocab] is needed"),
        ({**STEPS, "logits": torch.zeros(2, 0)}, "'logits': shape is [2, 0]; [2, vocab] is needed"),
        ({**STEPS, "logits": torch.zeros(2, 4).double()}, "'logits': dtype is float64"),
        ({**STEPS, "logits": torch.zeros(2, 4, dtype=torch.int32)}, "'logits': dtype is int32"),
    ],
)
def test_bad_tensors(stored: Build, tensors: dict[str, torch.Tensor], words: str) -> None:
    path = stored(**tensors)
    with pytest.raises(CaptureError) as caught:
        open_capture(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_largest_values(stored: Build) -> None:
    capture = open_capture(stored(token_steps=i64(2**63 - 1), tokens=i64(2**63 - 1)))
    assert (capture.tokens[0].step, capture.tokens[0].token) == (2**63 - 1, 2**63 - 1)
    assert capture.verify() == []
    assert try_all(capture.path) is None  # type: ignore[arg-type]


def test_a_foreign_file_has_no_tokens(foreign: Build) -> None:
    path = foreign({"logits": torch.zeros(2, 4), "tokens": i64(0)})
    assert len(open_capture(path, scores="logits").tokens) == 0


def test_logits_larger_than_memory_are_read_one_row_at_a_time(tmp_path: Path) -> None:
    import json

    count, vocab = 4096, 2**21
    steps = 8 * count
    meta = {"__metadata__": {"topk_workbench": '{"format_version": 1}'}}
    entries = {
        "token_steps": {"dtype": "I64", "shape": [count], "data_offsets": [0, steps]},
        "lengths": {"dtype": "I32", "shape": [1], "data_offsets": [steps, steps + 4]},
        "scores": {"dtype": "F32", "shape": [1, 1], "data_offsets": [steps + 4, steps + 8]},
        "logits": {
            "dtype": "BF16",
            "shape": [count, vocab],
            "data_offsets": [steps + 8, steps + 8 + 2 * count * vocab],
        },
    }
    text = json.dumps(meta | entries).encode()
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        try:
            file.truncate(8 + len(text) + steps + 8 + 2 * count * vocab)
        except OSError as error:
            pytest.skip(f"the file system takes no sparse file of 16 GB: {error}")
    begin = time.perf_counter()
    with little_memory(), open_capture(path) as capture:
        assert capture.info.tokens == count
        assert capture.tokens[-1].logits.numel() == vocab  # type: ignore[union-attr]
    assert time.perf_counter() - begin < 2


def test_reading_back_finds_changed_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = write_module._put

    def lying(out: Any, tensor: torch.Tensor) -> None:
        real(out, tensor + 1 if tensor.numel() == 5 else tensor)

    monkeypatch.setattr(write_module, "_put", lying)
    with pytest.raises(CaptureError, match="token 0 reads back different"):
        write_capture(tmp_path / "x.safetensors", ROWS, tokens=[Token(0, 1, torch.zeros(5))])
    assert list(tmp_path.iterdir()) == []


def test_the_table_names_what_is_read() -> None:
    assert [spec.name for spec in TOKEN_TENSORS] == ["token_steps", "tokens", "logits"]


# --- digests of rows


def test_a_digest_of_a_row_as_it_is_defined(tmp_path: Path) -> None:
    scores = torch.tensor([9.0, 1.0, -0.0, 2.5, 7.0])
    row = Row(scores, 3, 1, Call(k=2))
    expected = hashlib.sha256(b"float32 1 3\n" + struct.pack("<3f", 1.0, -0.0, 2.5)).hexdigest()
    assert row.digest == f"sha256:{expected}"
    write_capture(tmp_path / "x.safetensors", [row, Row(torch.zeros(5), 0)])
    capture = open_capture(tmp_path / "x.safetensors")
    assert capture.digest_of(0) == capture[0].digest == row.digest
    assert capture.digest_of(-1) == capture[1].digest == Row(torch.ones(9), 0).digest
    assert Capture.from_rows([row]).digest_of(0) == row.digest
    with pytest.raises(IndexError):
        capture.digest_of(2)


def test_a_digest_names_the_input_and_nothing_else() -> None:
    scores = torch.tensor([1.0, 0.0, 3.0, 4.0])
    base = Row(scores, 3)
    padded = scores.clone()
    padded[3] = 99.0
    indices = torch.zeros(2, dtype=torch.int32)
    assert base.digest == Row(padded, 3, call=Call(k=2, layer=4), indices=indices, index=7, capture="x").digest
    signed = scores.clone()
    signed[1] = -0.0
    nans = [torch.tensor([bits], dtype=torch.int32).view(torch.float32) for bits in (0x7FC00000, 0x7FC00001, -0x400000)]
    changed = [Row(scores, 2), Row(scores, 3, 1), Row(signed, 3), Row(scores.bfloat16(), 3), Row(scores.half(), 3)]
    changed += [Row(torch.cat([nan, scores[1:]]), 3) for nan in nans]
    assert len({row.digest for row in [base, *changed]}) == 1 + len(changed)
    assert Row(torch.stack([scores, scores], 1)[:, 0], 3).digest == base.digest  # a strided view


def test_digests_of_a_file_do_not_read_padding(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_capture(path, [Row(torch.randn(2**20), 16, 8) for _ in range(8)])
    capture = open_capture(path)
    counted: list[int] = []
    real = capture._sources[0]._fill
    capture._sources[0]._fill = lambda view, begin: (counted.append(len(view)), real(view, begin))[1]  # type: ignore[method-assign]
    assert len({capture.digest_of(row) for row in range(8)}) == 8
    assert counted == [64] * 8
