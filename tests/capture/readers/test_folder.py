"""Folders of plain files, and what is no dump at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from workbench.capture import Call, Row, open_capture, write_capture

Refusal = Callable[..., str]


def test_arrays_by_the_names_of_their_files(tmp_path: Path) -> None:
    np.save(tmp_path / "logits.npy", np.ones((2, 5), np.float32))
    np.save(tmp_path / "seq_lens.npy", np.array([5, 2]))
    torch.save(torch.tensor([[0], [1]]), tmp_path / "topk_indices.pt")
    (tmp_path / "notes.txt").write_text("of a run")
    with open_capture(tmp_path) as capture:
        assert capture.info.format == "folder of tensors"
        assert capture.lengths.tolist() == [5, 2]
        assert capture[1].indices is not None
        assert capture.info.left == ("'notes.txt': no kind of file that is read",)
        assert capture.verify() == []


def test_one_file_a_call_in_natural_order(tmp_path: Path) -> None:
    for step in (10, 9):
        torch.save(
            {"logits": torch.full((1, 4), float(step)), "lens": torch.tensor([step % 4]), "k": 1},
            tmp_path / f"step{step}.pt",
        )
    save_file({"logits": torch.zeros(1, 4), "lens": torch.tensor([4])}, tmp_path / "step11.safetensors")
    np.savez(tmp_path / "step12.npz", logits=np.ones((1, 4), np.float32), lens=np.array([1]))
    with open_capture(tmp_path) as capture:
        assert [row.scores[0].item() for row in capture] == [9, 10, 0, 1]
        assert capture.lengths.tolist() == [1, 2, 4, 1]
        assert [call.k for call in capture.calls] == [1, 1, None, None]
    with open_capture(tmp_path, scores="step*.logits", lengths="step*.lens") as capture:
        assert len(capture) == 4


def test_a_file_that_cannot_be_read_does_not_stand_in_the_way(tmp_path: Path, refusal: Refusal) -> None:
    torch.save({"logits": torch.ones(1, 4)}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(b"nothing")
    with open_capture(tmp_path) as capture:
        (left,) = capture.info.left
        assert "'b', which cannot be read" in left
    assert "b.pt: not a file of torch.save" in refusal(tmp_path, scores="b")
    (tmp_path / "a.pt").unlink()
    assert "b.pt: not a file of torch.save" in refusal(tmp_path)


def test_links_that_lead_out_are_not_followed(tmp_path: Path, refusal: Refusal) -> None:
    torch.save(torch.ones(1, 4), tmp_path / "outside.pt")
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "logits.pt").symlink_to(tmp_path / "outside.pt")
    assert "leads out of the folder" in refusal(folder)


def test_folders_that_are_no_dump(tmp_path: Path, refusal: Refusal) -> None:
    assert "no known dump" in refusal(tmp_path)
    for name in ("dump_2", "dump_10"):
        (tmp_path / name).mkdir()
    assert "name one of its folders: dump_2 and dump_10" in refusal(tmp_path)
    write_capture(tmp_path / "c.safetensors", [Row(torch.ones(3), 3, call=Call(k=1))])
    torch.save(torch.ones(1, 4), tmp_path / "a.pt")
    assert "this is a folder of captures; name one of them" in refusal(tmp_path)


def test_two_files_of_one_name(tmp_path: Path, refusal: Refusal) -> None:
    torch.save(torch.ones(1, 4), tmp_path / "logits.pt")
    np.save(tmp_path / "logits.npy", np.ones((1, 4), np.float32))
    assert "two tensors are named 'logits'" in refusal(tmp_path)
