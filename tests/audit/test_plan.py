"""Which files an audit takes, and how it parts them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.audit.making import dump, rows
from workbench.audit.asked import Asked, located
from workbench.audit.plan import AuditPlan, dumped, loaded, make_plan
from workbench.capture import Call, Row, write_capture
from workbench.capture.values import shown
from workbench.errors import UsageError


def planned(what: object, **asked: object) -> AuditPlan:
    folder, inputs = located(what)
    return make_plan(Asked(folder, inputs, **asked))  # type: ignore[arg-type]


def names(plan: AuditPlan) -> list[str]:
    return [file.file for file in plan.files]


def test_files_at_any_depth_in_natural_order(tmp_path: Path) -> None:
    for name in ("b/step10", "b/step9", "a/deep/er/x", "step2", "step10", ".hidden/x", "b/.hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_capture(tmp_path / f"{name}.safetensors", rows(1))
    (tmp_path / "notes.txt").write_text("no capture")
    (tmp_path / "empty").mkdir()
    assert names(planned(tmp_path)) == [
        "a/deep/er/x.safetensors",
        "b/step9.safetensors",
        "b/step10.safetensors",
        "step2.safetensors",
        "step10.safetensors",
    ]


def test_several_are_named_below_their_common_folder_and_none_twice(tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump", 4)
    one = folder / "rank0" / "step0.safetensors"
    assert names(planned([folder / "rank1", one, folder / "rank1", one])) == [
        "rank0/step0.safetensors",
        "rank1/step1.safetensors",
        "rank1/step3.safetensors",
    ]
    assert names(planned([folder, one])) == names(planned(folder))
    assert names(planned(one)) == ["step0.safetensors"]


@pytest.mark.parametrize("what", [[], "", 3, [3], "a\0b"])
def test_what_is_none_is_told(what: object) -> None:
    with pytest.raises(UsageError):
        located(what)


def test_a_folder_without_captures_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        located(tmp_path / "none")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="holds no capture"):
        planned(tmp_path)


def test_links_are_followed_once(tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump", 1)
    (folder / "rank0" / "up").symlink_to(folder)
    (folder / "other").symlink_to(folder / "rank0")
    (folder / "z.safetensors").symlink_to(folder / "rank0" / "step0.safetensors")
    (folder / "gone.safetensors").symlink_to(folder / "nothing")
    plan = planned(folder)
    assert names(plan) == [
        "gone.safetensors",
        "other/step0.safetensors",
        "rank0/step0.safetensors",
        "z.safetensors",
    ]
    assert [bool(file.error) for file in plan.files] == [True, False, False, False]


def test_a_link_into_itself_loses_no_more_than_itself(tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump", 1)
    for name in ("loop", "loop.safetensors", "loop.npz"):
        (folder / "rank0" / name).symlink_to(name)
    errors = {file.file: file.error for file in planned(folder).files}
    assert errors.pop("rank0/step0.safetensors") == ""
    assert sorted(errors) == ["rank0/loop", "rank0/loop.npz", "rank0/loop.safetensors"]
    assert all("symbolic links" in error for error in errors.values())


def test_broken_files_and_folders_are_in_the_plan_with_their_error(tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump", 1)
    whole = (folder / "rank0" / "step0.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:-5])
    (folder / "empty.safetensors").write_bytes(b"")
    (folder / "text.safetensors").write_text("x" * 1000)
    save_file({"weight": torch.zeros(4, 4)}, folder / "model.safetensors")
    save_file({"scores": torch.zeros(2, 4), "lengths": torch.zeros(2)}, folder / "halves.safetensors")
    (folder / "folder.safetensors").mkdir()  # is looked into, and holds nothing
    os.mkfifo(folder / "pipe.safetensors")
    plan = planned(folder)
    errors = {file.file: file.error for file in plan.files if file.error}
    assert sorted(errors) == [
        "cut.safetensors",
        "empty.safetensors",
        "halves.safetensors",
        "model.safetensors",
        "pipe.safetensors",
        "text.safetensors",
    ]
    assert plan.rows == 3
    assert errors["halves.safetensors"].startswith("tensor 'lengths': "), "a file of many tensors has one at fault"
    assert {file.file: file.size for file in plan.files}["cut.safetensors"] == len(whole) - 5


@pytest.mark.usefixtures("permissions_hold")
def test_what_is_forbidden_is_in_the_plan(tmp_path: Path) -> None:
    """A folder that cannot be listed, one whose files cannot be looked at, and a file."""
    folder = dump(tmp_path / "dump", 3)
    (folder / "listed").mkdir()
    write_capture(folder / "listed" / "a.safetensors", rows(1))
    (folder / "rank0" / "step0.safetensors").chmod(0)
    (folder / "rank1").chmod(0)
    (folder / "listed").chmod(0o444)
    (tmp_path / "link.safetensors").symlink_to(folder / "rank1" / "step1.safetensors")
    try:
        plan = planned(folder)
        with pytest.raises(
            UsageError, match=r"step1.safetensors: cannot be looked at: Permission denied; have it perm"
        ):
            located(folder / "rank1" / "step1.safetensors")
        (led,) = planned(tmp_path / "link.safetensors").files
    finally:
        (folder / "rank1").chmod(0o755)
        (folder / "listed").chmod(0o755)
    assert {file.file: file.error.partition(";")[0] for file in plan.files} == {
        "listed/a.safetensors": f"no permission to look into the folder {folder / 'listed'}",
        "rank0/step0.safetensors": "no permission to read the file",
        "rank0/step2.safetensors": "",
        "rank1": "the folder cannot be listed: Permission denied",
    }
    assert led.error.startswith("no permission to look into the folder ")


def test_dumps_of_other_tools_are_taken_as_they_open(tmp_path: Path) -> None:
    scores, lengths = torch.randn(3, 500), torch.tensor([500, 400, 300])
    for name in ("alone", "beside", "arrays", "mixed"):
        (tmp_path / name).mkdir()
    for step in range(3):
        torch.save({"scores": scores, "lengths": lengths}, tmp_path / "alone" / f"step{step}.pt")
    torch.save(scores, tmp_path / "beside" / "logits.pt")
    torch.save(lengths, tmp_path / "beside" / "seq_lens.pt")
    np.save(tmp_path / "arrays" / "logits.npy", scores.numpy())
    np.save(tmp_path / "arrays" / "seq_lens.npy", lengths.numpy())
    torch.save({"scores": scores, "lengths": lengths}, tmp_path / "mixed" / "good.pt")
    torch.save({"weights": torch.zeros(3)}, tmp_path / "mixed" / "model.pt")
    write_capture(tmp_path / "mixed" / "capture.safetensors", rows(1))
    plan = planned(tmp_path, k=64)
    assert {file.file: (file.rows, bool(file.error)) for file in plan.files} == {
        "alone/step0.pt": (3, False),
        "alone/step1.pt": (3, False),
        "alone/step2.pt": (3, False),
        "arrays": (3, False),
        "beside": (3, False),
        "mixed/capture.safetensors": (1, False),
        "mixed/good.pt": (3, False),
        "mixed/model.pt": (0, True),
    }


def test_what_goes_with_some_files_only_is_told_of_the_others(tmp_path: Path) -> None:
    """A capture is read as it was recorded, so that asking for another dtype is an error of it, and of no dump."""
    (tmp_path / "a").mkdir()
    write_capture(tmp_path / "capture.safetensors", rows(1))
    torch.save({"scores": torch.ones(2, 500)}, tmp_path / "a" / "dump.pt")
    plan = planned(tmp_path, k=64, as_dtype="bfloat16")
    assert [(file.file, file.rows) for file in plan.files] == [("a/dump.pt", 2), ("capture.safetensors", 0)]
    assert "as_dtype" in plan.files[1].error
    with pytest.raises(UsageError, match="as_dtype"):
        planned(tmp_path / "capture.safetensors", as_dtype="bfloat16")


def test_a_sharded_set_is_one_file_and_its_shards_are_none(tmp_path: Path) -> None:
    shards = {}
    for number in (1, 2):
        shard = f"dump-0000{number}-of-00002.safetensors"
        save_file({f"logits.{number}": torch.randn(2, 300)}, tmp_path / shard)
        shards[f"logits.{number}"] = shard
    (tmp_path / "dump.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    plan = planned(tmp_path, k=16, scores="logits.*")
    assert [(file.file, file.rows, file.error) for file in plan.files] == [("dump.safetensors.index.json", 4, "")]


def test_units_are_runs_of_rows_of_bounded_bytes(tmp_path: Path) -> None:
    """Of valid scores: padding is not read, and a row that is too long alone is a unit of its own."""
    lengths = [100, 100, 100, 1000, 50, 50, 0, 50, 1000, 1000]
    wide = [Row(torch.zeros(4000), length, call=Call(k=16)) for length in lengths]
    write_capture(tmp_path / "a.safetensors", wide)
    plan = planned(tmp_path, unit_bytes=1000)
    spans = plan.files[0].spans
    assert spans == ((0, 2, 800), (2, 1, 400), (3, 1, 4000), (4, 4, 600), (8, 1, 4000), (9, 1, 4000))
    assert plan.bytes == 4 * sum(lengths)
    assert [job.number for job in plan.jobs()] == list(range(6))
    assert planned(tmp_path).files[0].spans == ((0, 10, 4 * sum(lengths)),)


def test_many_short_rows_are_parted_by_the_lines_they_make(tmp_path: Path) -> None:
    write_capture(tmp_path / "a.safetensors", rows(3000, 20, k=4))
    plan = planned(tmp_path)
    assert len(plan.files[0].spans) > 1
    assert all(count * plan.files[0].lines <= 2**15 for _, count, _ in plan.files[0].spans)
    assert len(plan.parts()) > 1
    one = planned(tmp_path, paths="vllm.histogram_256")
    assert [count for _, count, _ in one.files[0].spans] == [3000]


def test_parts_hold_each_unit_once_and_in_order(tmp_path: Path) -> None:
    plan = planned(dump(tmp_path / "dump", 12, count=40, length=50, k=8), unit_bytes=400)
    parts = plan.parts()
    assert [number for part in parts for number in part] == list(range(plan.units))


def test_the_plan_comes_back_from_its_lines_and_is_the_same_each_time(tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump")
    (folder / "broken.safetensors").write_text("")
    plan = planned(folder, unit_bytes=5000)
    assert loaded(dumped(plan)) == plan == planned(folder, unit_bytes=5000)


def test_names_that_are_no_utf8_are_kept(tmp_path: Path) -> None:
    write_capture(tmp_path / "a.safetensors", rows(1))
    os.rename(tmp_path / "a.safetensors", os.fsencode(tmp_path) + b"/\xff.safetensors")  # noqa: PTH104
    plan = planned(tmp_path)
    assert plan.rows == 1
    assert loaded(dumped(plan)) == plan


def test_names_that_are_printed_alike_are_told_apart(tmp_path: Path) -> None:
    whole = dump(tmp_path / "one", 1) / "rank0" / "step0.safetensors"
    folder = tmp_path / "dump"
    folder.mkdir()
    for name in (b"a\\xff.safetensors", b"a\xff.safetensors"):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(whole.read_bytes())  # noqa: PTH118
    plan = planned(folder)
    assert [bool(file.error) for file in plan.files] == [False, True]
    assert plan.rows == 3
    assert len({shown(file.file) for file in plan.files}) == 2
    assert "printed as that of another file" in plan.files[1].error


@pytest.mark.parametrize("damage", ["cut", "emptied", "edited", "nested"])
def test_a_plan_that_is_not_whole_is_none(tmp_path: Path, damage: str) -> None:
    text = dumped(planned(dump(tmp_path / "dump")))
    made = {
        "cut": "".join(text.splitlines(keepends=True)[:2]),
        "emptied": "",
        "edited": text.replace('"rows": 3', '"rows": 4', 1),
        "nested": "[" * 100_000,
    }
    with pytest.raises(ValueError, match="damaged"):
        loaded(made[damage])
