"""Errors that are told before a graph is read, some of them before TensorFlow is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.inspect.graph_files import write_graph
from graph_opt.ops import library


@pytest.mark.parametrize("arguments", [["inspect"], ["rewrite", "-o", "out.pb"], ["plan"]])
def test_a_missing_file_is_told_before_tensorflow_is_loaded(arguments: List[str]) -> None:
    assert told_early([*arguments, "no_such_graph.pb"]) == (
        "graph-opt: no_such_graph.pb: no such file\n"
    )


@pytest.mark.parametrize("command", ["run", "check", "cluster", "inspect"])
def test_a_misspelled_setting_is_told_before_tensorflow_is_loaded(command: str) -> None:
    told = told_early([command, "--set", "thread_num=2", __file__])
    assert told.startswith("graph-opt") and told.count("\n") == 1
    assert told.endswith(": there is no option 'thread_num'; did you mean threads_num?\n")


def told_early(arguments: List[str]) -> str:
    """What a command that fails before it loads TensorFlow prints."""
    program = (
        "import sys; from graph_opt.cli.main import main; "
        "print(main(sys.argv[1:]), 'tensorflow' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300
    )
    assert ran.stdout == "2 False\n"
    return ran.stderr


def test_missing_compiled_ops_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tf.constant(1)
    graph = tmp_path / "graph.pb"
    write_graph(tf.get_default_graph().as_graph_def(), graph)
    monkeypatch.setattr(library, "LIBRARY_PATH", "/no/such/library.so")
    assert main(["inspect", str(graph)]) == 2
    error = capsys.readouterr().err
    assert "compiled ops are missing (/no/such/library.so)" in error and error.count("\n") == 1
