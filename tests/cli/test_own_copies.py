"""What a run of `graph-opt check` writes to becomes its own first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest

from graph_opt.cli.own_copies import OwnCopies, environment_of
from graph_opt.cli.run_folders import RunFolder

REPOSITORY = Path(__file__).resolve().parents[2]
# What a script does to files of its working directory, by Python and by TensorFlow.
BY_PYTHON = """
import os, shutil
open("log.txt", "a").write("ran")
open("data/new/rows.csv", "w").write("ran")
os.remove("data/gone.csv")
os.rename("data/old.csv", "data/renamed.csv")
os.makedirs("data/made/deep")
os.chmod("tool", 0o600)
shutil.rmtree("rest")
assert open("log.txt").read() == "userran" and os.path.exists("data/kept.csv")
"""
BY_TENSORFLOW = """
import tensorflow as tf
tf.io.gfile.GFile("log.txt", "a").write("ran")
tf.io.gfile.makedirs("data/new/more")
tf.io.gfile.remove("data/gone.csv")
tf.io.gfile.rename("data/old.csv", "data/renamed.csv")
tf.io.gfile.copy("tool", "data/kept.csv", overwrite=True)
tf.io.gfile.rmtree("rest")
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    names = ("log.txt", "tool", "data/new/rows.csv", "data/gone.csv", "data/old.csv",
             "data/kept.csv", "rest/a/b.txt", "rest/c.txt")  # fmt: skip
    for name in names:
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_text("user")
    return RunFolder(str(tmp_path / "run"), str(tmp_path / "here"))


def content_of(folder: Path) -> Dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() + oct(path.stat().st_mode)
            for path in files}  # fmt: skip


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "from graph_opt.cli.own_copies import own_copies; own_copies()" + BY_PYTHON,
            marks=pytest.mark.skipif(
                not hasattr(sys, "addaudithook"), reason="this Python has no audit hooks"
            ),
        ),
        pytest.param(
            "from graph_opt.cli.own_copies import own_copies; own_copies().watch_tensorflow()"
            + BY_TENSORFLOW,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_files_of_the_user_stay_as_they_are(run: RunFolder, tmp_path: Path, script: str) -> None:
    before = content_of(tmp_path / "here")
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY), **environment_of(run.work))
    subprocess.run(
        [sys.executable, "-c", script], cwd=run.work, env=environment, check=True, timeout=200
    )
    assert content_of(tmp_path / "here") == before
    work = Path(run.work)
    assert (work / "log.txt").read_text().endswith("ran") and not (work / "rest").exists()
    assert (work / "data" / "renamed.csv").read_text() == "user"
    assert not (work / "data" / "gone.csv").exists()


def test_what_is_only_read_or_elsewhere_stays_a_link(run: RunFolder, tmp_path: Path) -> None:
    copies = OwnCopies(run.work)
    copies.on_event("open", (os.path.join(run.work, "log.txt"), "r", os.O_RDONLY | os.O_CLOEXEC))
    copies.on_event("open", (3, "w", os.O_WRONLY))
    copies.take(str(tmp_path / "here" / "log.txt"))
    assert all(path.is_symlink() for path in Path(run.work).iterdir())
