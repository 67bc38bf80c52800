"""Of two checkouts in one environment, Python takes that of the folder in which it was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import graph_opt
from graph_opt.launch.other_checkouts import missing_library

PACKAGE = Path(graph_opt.__file__).parent


@pytest.mark.slow
def test_a_checkout_without_the_library_names_the_one_that_has_it(tmp_path: Path) -> None:
    taken = tmp_path / "graph_opt"
    (taken / "ops").mkdir(parents=True)
    for each in PACKAGE.iterdir():
        if each.name != "ops":
            (taken / each.name).symlink_to(each)
    for each in (PACKAGE / "ops").iterdir():
        if each.suffix == ".py":
            (taken / "ops" / each.name).write_bytes(each.read_bytes())
    command = "from graph_opt.ops.library import load_library; load_library()"
    done = subprocess.run(
        [sys.executable, "-c", command],
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(PACKAGE.parent)),
    )
    last = done.stderr.splitlines()[-1]
    assert "compiled ops are missing" in last and "another folder" in last
    assert "took graph_opt from {}".format(taken) in last
    assert "and {} has the library".format(PACKAGE) in last


def test_one_checkout_is_told_how_to_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    path = str(PACKAGE / "ops" / "no_such_library.so")
    text = missing_library("the ops are missing ({})", path)
    assert text.startswith("the ops are missing ({}): run 'pip".format(path))
