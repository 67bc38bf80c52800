"""Errors that are told before a graph is read, some of them before TensorFlow is loaded."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from graph_opt.cli.early_checks import read_config
from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.config.settings import settings_config
from graph_opt.inspect.graph_files import write_graph
from graph_opt.ops import library


@pytest.mark.parametrize(
    "arguments",
    [["inspect"], ["rewrite", "-o", "out.pb"], ["plan"], ["export", "-o", "no_such_folder"]],
)
def test_a_missing_file_is_told_before_tensorflow_is_loaded(arguments: List[str]) -> None:
    assert told_early([*arguments, "no_such_graph.pb"]) == (
        "graph-opt: no_such_graph.pb: no such file\n"
    )


@pytest.mark.parametrize("command", ["run", "check", "cluster"])
def test_a_missing_script_is_told_before_tensorflow_is_loaded(command: str) -> None:
    assert told_early([command, "none.py"]) == (
        "graph-opt {}: cannot open script 'none.py': No such file or directory\n".format(command)
    )


@pytest.mark.parametrize("command", ["run", "check", "cluster", "inspect"])
@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("thread_num=2", "there is no option 'thread_num'; did you mean threads_num?"),
        ("threads_num", "'threads_num' is not a setting: write key=value"),
        ("do_group_embedding=ture", "do_group_embedding=ture: need true or false"),
    ],
)
def test_a_wrong_setting_is_told_before_tensorflow_is_loaded(
    command: str, setting: str, told: str
) -> None:
    line = told_early([command, "--set", setting, __file__])
    assert line.startswith("graph-opt") and line.count("\n") == 1
    assert line.endswith(": {}\n".format(told))


@pytest.mark.parametrize("value", ["true", "False", " 1", "f"])
def test_switches_may_be_written_as_the_text_format_has_them(value: str) -> None:
    options = argparse.Namespace(settings=["do_group_embedding=" + value], config=None)
    read_config(options)
    assert settings_config(options.settings).graph_options.HasField("optimizer_options")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["export", __file__, "-o", "."], ".: exists already; give a folder that does not"),
        (
            ["rewrite", __file__, "-o", "none/out.pb"],
            "none/out.pb: cannot be written: No such file or directory",
        ),
        (["rewrite", __file__, "-o", "."], ".: cannot be written: Is a directory"),
        (
            ["inspect", __file__, "--html", "none/page.html"],
            "none/page.html: cannot be written: No such file or directory",
        ),
        (
            ["inspect", __file__, "--timeline", __file__],
            "--timeline is shown in a page: give --html FILE.html, and no --diff",
        ),
        (
            ["inspect", __file__, "--diff", __file__, "--dot", "a.dot"],
            "--diff compares files as they are, and goes with --json and --html only",
        ),
        (
            ["inspect", __file__, "--ids-per-row", "2"],
            "--ids-per-row is for the cost of a step: say --batch N, too",
        ),
        (
            ["plan", __file__, "--delay-ms", "2"],
            "--delay-ms is for the rates that --measure measures: say both",
        ),
        (
            ["plan", __file__, "--sample", __file__],
            "--sample counts the different ids of batches: say --batch N, too",
        ),
        (["plan", __file__, "--batch", "1", "--sample", "none"], "none: no such file"),
        (["check", "--requests", "none.npz", "."], "none.npz: no such file"),
        (["check", "--requests", __file__, "none"], "none: no such file"),
        (["convert", "none", "out", "--to", "sok"], "none: no such file"),
        (["convert", ".", ".", "--to", "sok"], ". exists: remove it, or choose another name"),
    ],
)
def test_what_needs_no_graph_is_told_before_tensorflow_is_loaded(
    arguments: List[str], told: str
) -> None:
    line = told_early(arguments)
    assert line.startswith("graph-opt: " + told) and line.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["inpsect", "graph.pb"],
        ["inspect", "--josn", "graph.pb"],
        ["export", "model", "-o", "out", "--feed", "user"],
        ["export", "model", "-o", "out", "--fetch", "=scores"],
        ["plan", "graph.pb", "--batch", "0"],
        ["inspect", "--help"],
        [],
    ],
)
def test_usage_is_told_before_tensorflow_is_loaded(arguments: List[str]) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print('tensorflow' in sys.modules)); "
        "from graph_opt.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300
    )
    assert ran.stdout.endswith("False\n")
    assert ran.returncode == (2 if ran.stderr else 0)


def told_early(arguments: List[str]) -> str:
    """What a command that fails before it loads TensorFlow prints."""
    program = (
        "import sys; from graph_opt.cli.main import main; "
        "print(main(sys.argv[1:]), 'tensorflow' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300
    )
    assert ran.stdout == "2 False\n", ran.stderr
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
