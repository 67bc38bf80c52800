"""What `graph-opt` says of itself and of wrong arguments, as users see it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import IO, List, Tuple

import pytest

from graph_opt.cli.arguments import parser
from graph_opt.cli.main import main
from graph_opt.cli.parser import WIDEST, commands_of, wrapped_usage

COMMANDS = sorted(commands_of(parser()))


def usage_error(arguments: List[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The line that ends a command."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    captured = capsys.readouterr()
    assert (caught.value.code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1
    return captured.err.rstrip("\n")


def test_bare_it_lists_its_commands_with_an_example_of_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert lines[0] == "usage: graph-opt COMMAND [ARGUMENT]..."
    for name in COMMANDS:
        (at,) = [at for at, line in enumerate(lines) if line.startswith("  {} ".format(name))]
        example = next(line for line in lines[at:] if line.lstrip().startswith("$ "))
        assert example.lstrip().startswith("$ graph-opt {} ".format(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_is_understood(name: str) -> None:
    example = shlex.split(commands_of(parser())[name].example)
    assert parser().parse_args(example[1:]).command == name


@pytest.mark.parametrize("columns", [60, 80, 100, 300])
def test_the_list_of_commands_is_no_wider_either(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = parser().format_help().splitlines()
    examples = [line for line in lines if line.lstrip().startswith("$ ")]
    assert len(examples) == len(COMMANDS)  # Each in one line, so that it can be copied.
    others = [line for line in lines if line not in examples]
    assert max(map(len, others)) <= min(columns, WIDEST)


@pytest.mark.parametrize("columns", [60, 80, 100, 300])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_no_wider_than_the_terminal_nor_than_what_can_be_read(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = commands_of(parser())[name].format_help()
    assert max(map(len, text.splitlines())) <= min(columns, WIDEST)


def test_what_is_in_brackets_stays_in_one_line_of_the_usage() -> None:
    usage = "graph-opt check [-np N | --ps N [--no-chief]] [--config FILE] {SCRIPT | -m MODULE}"
    assert wrapped_usage(usage, 55).splitlines() == [
        "graph-opt check [-np N | --ps N [--no-chief]]",
        "                       [--config FILE]",
        "                       {SCRIPT | -m MODULE}",
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["inpsect", "graph.pb"],
            "graph-opt: there is no command 'inpsect'; did you mean inspect?",
        ),
        (["rnu", "train.py"], "graph-opt: there is no command 'rnu'; did you mean run?"),
        (["xyz"], "graph-opt: there is no command 'xyz'; see graph-opt --help"),
        (["--verison"], "graph-opt: there is no flag '--verison'; did you mean --version?"),
        (
            ["-np", "2", "run", "train.py"],
            "graph-opt: -np comes after a command: graph-opt run -np; see graph-opt --help",
        ),
        (
            ["missing.py"],
            "graph-opt: there is no command 'missing.py'; did you mean graph-opt run missing.py?",
        ),
        (
            [__file__],
            "graph-opt: there is no command '{0}'; did you mean graph-opt run {0}?".format(
                __file__
            ),
        ),
        (
            ["run", "--cofig", "a.pbtxt", "train.py"],
            "graph-opt run: there is no flag '--cofig'; did you mean --config?",
        ),
        (
            ["inspect", "--josn=1"],
            "graph-opt inspect: there is no flag '--josn'; did you mean --json?",
        ),
        (
            ["rewrite", "in.pb", "--outptu", "out.pb"],
            "graph-opt rewrite: there is no flag '--outptu'; did you mean --output?",
        ),
        (
            ["plan", "in.pb", "--zzz"],
            "graph-opt plan: there is no flag '--zzz'; see graph-opt plan --help",
        ),
        (
            ["plan", "in.pb", "too.pb"],
            "graph-opt plan: 'too.pb' is one argument too many; see graph-opt plan --help",
        ),
        (
            ["inspect"],
            "graph-opt inspect: IN must be given; see graph-opt inspect --help",
        ),
        (
            ["convert"],
            "graph-opt convert: SOURCE, TARGET and --to must be given; see graph-opt convert "
            "--help",
        ),
        (
            ["convert", "model", "tables", "--to", "skk"],
            "graph-opt convert: --to: 'skk' is not one of checkpoint, npy, sok; did you mean sok?",
        ),
        (
            ["completion", "tcsh"],
            "graph-opt completion: shell: 'tcsh' is not one of bash, fish, zsh; see graph-opt "
            "completion --help",
        ),
        (
            ["plan", "in.pb", "--batch"],
            "graph-opt plan: --batch needs a value; see graph-opt plan --help",
        ),
        (
            ["proxy", "localhost:0"],
            "graph-opt proxy: HOST:PORT: 'localhost:0' is not HOST:PORT with a port from 1 to "
            "65535; see graph-opt proxy --help",
        ),
        (
            ["run", "--sok"],
            "graph-opt run: no script given: give its path, or -m MODULE; see graph-opt run --help",
        ),
    ],
)
def test_wrong_usage_is_one_line_that_names_what_may_be_meant(
    arguments: List[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert usage_error(arguments, capsys) == told


def test_flags_of_a_script_are_its_own() -> None:
    options = parser().parse_args(["run", "--sok", "train.py", "--cofig", "x", "--help"])
    assert options.script == ["train.py", "--cofig", "x", "--help"]


def ended(arguments: List[str], output: IO[bytes]) -> Tuple[int, str]:
    """The exit code of a process that prints there, and its standard error."""
    command = [sys.executable, "-m", "graph_opt.cli", *arguments]
    ran = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["inspect", "--help"], ["completion", "zsh"]]
)
def test_output_that_cannot_be_written_is_one_line(arguments: List[str]) -> None:
    with open("/dev/full", "wb") as full:
        line = "graph-opt: the output cannot be written: No space left on device\n"
        assert ended(arguments, full) == (2, line)
    readable, written = os.pipe()
    os.close(readable)
    with os.fdopen(written, "wb") as unread:
        assert ended(arguments, unread) == (0, "")
