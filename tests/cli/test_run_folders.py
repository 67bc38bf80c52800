"""Each run of a script gets folders of its own."""

from __future__ import annotations

from pathlib import Path

from graph_opt.cli.run_folders import RunFolder, is_trained_into


def made(folder: Path, *files: str) -> Path:
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_data_is_linked_and_what_is_trained_into_is_copied(tmp_path: Path) -> None:
    script_folder = made(tmp_path / "here", "train.py", "data/rows.csv", "model/checkpoint")
    (script_folder / "empty").mkdir()
    run = RunFolder(str(tmp_path / "run"), str(script_folder))
    work = Path(run.work)
    assert (work / "train.py").is_file() and not (work / "train.py").is_symlink()
    assert (work / "data").is_symlink()
    (work / "model" / "checkpoint").write_text("changed")
    (work / "empty" / "new").write_text("new")
    assert (script_folder / "model" / "checkpoint").read_text() == "model/checkpoint"
    assert not list((script_folder / "empty").iterdir())
    assert run.within(str(script_folder / "train.py")) == str(work / "train.py")
    assert run.within("/elsewhere/train.py") == "/elsewhere/train.py"


def test_checkpoints_outside_of_a_run_are_noticed(tmp_path: Path) -> None:
    script_folder = made(tmp_path / "here", "data/rows.csv", "model/checkpoint")
    run = RunFolder(str(tmp_path / "run"), str(script_folder))
    assert run.owns("model/model.ckpt-1") and run.owns("new/model.ckpt")
    assert not run.owns("data/model.ckpt") and not run.owns("/tmp/model.ckpt")


def test_arguments_that_are_folders_of_a_training_are_replaced(tmp_path: Path) -> None:
    script_folder = made(tmp_path / "here", "train.py")
    model = made(tmp_path / "model", "checkpoint")
    data = made(tmp_path / "data", "rows.csv")
    old = made(tmp_path / "old", "model.ckpt-7.index")
    new = tmp_path / "out"
    kept = [str(data), "--rows={}/*.csv".format(data), str(data / "rows.csv"), "--steps=3", "new"]
    kept += ["--from={}/model.ckpt-7".format(old), "--device=/gpu:0", "/job:ps/task:0"]
    run = RunFolder(str(tmp_path / "run"), str(script_folder))
    given = ["--model_dir={}".format(model), "--out", str(new), str(new), *kept]
    first, flag, second, third, *others = run.arguments(given)
    assert others == kept and flag == "--out"
    copied = Path(first.partition("=")[2])
    assert (copied / "checkpoint").read_text() == "checkpoint" and copied != model
    assert second == third != str(new) and not Path(second).exists()
    assert list(run.replaced) == [str(model), str(new)]


def test_which_folders_are_trained_into(tmp_path: Path) -> None:
    assert is_trained_into(str(made(tmp_path / "empty")))
    assert is_trained_into(str(made(tmp_path / "events", "eval/events.out.tfevents.1.host")))
    assert not is_trained_into(str(made(tmp_path / "data", "part/rows.csv")))
    assert not is_trained_into(str(tmp_path / "absent"))
