"""Shells complete the command line of `graph-opt` by the scripts that it prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import List

import pytest

from graph_opt.cli.arguments import parser
from graph_opt.cli.completion import SHELLS
from graph_opt.cli.main import main
from graph_opt.cli.parser import commands_of, flags_of

# Completes the last word of a line; the shell itself completes files, where it is to (`default`).
IN_BASH = """
source "$1"; shift
files=default
compopt() { case $* in "+o default") files= ;; esac; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_graph_opt
printf '%s\\n' "${COMPREPLY[@]}"
[ -n "${COMPREPLY[0]}" ] || [ -z "$files" ] || compgen -f -- "${COMP_WORDS[COMP_CWORD]}"
exit 0
"""


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        (tmp_path / ("script." + shell)).write_text(capsys.readouterr().out)
    (tmp_path / "model.pb").touch()
    return tmp_path


def ran(command: List[str], folder: Path) -> List[str]:
    done = subprocess.run(command, cwd=str(folder), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t")[0] for line in done.stdout.splitlines() if line]


def completed(shell: str, line: str, folder: Path) -> List[str]:
    """What the shell offers at the end of the line."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip("{} is not installed".format(shell))
    if shell == "bash":
        words = re.findall(r"=|[^ =]+|(?<= )$", line)  # As bash divides a line.
        return ran([program, "-c", IN_BASH, "bash", "script.bash", *words], folder)
    return ran([program, "-c", "source script.fish; complete -C '{}'".format(line)], folder)


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("graph-opt ins", ["inspect"]),
        ("graph-opt inspect --ht", ["--html"]),
        ("graph-opt inspect mod", ["model.pb"]),
        ("graph-opt inspect --html mod", ["model.pb"]),
        ("graph-opt inspect --batch mod", []),
        ("graph-opt convert --to s", ["sok"]),
        ("graph-opt completion z", ["zsh"]),
        ("graph-opt run --set threads_n", ["threads_num="]),
        ("graph-opt run --config a.pbtxt --rep", ["--report"]),
        ("graph-opt run train.py --rep", []),
        ("graph-opt run --sok train.py mod", ["model.pb"]),
        ("graph-opt run --set threads_num=2 --rep", ["--report"]),
        ("graph-opt run --config=a.pbtxt --rep", ["--report"]),
        ("graph-opt run --set threads_num=2 train.py --rep", []),
    ],
)
def test_what_may_follow_is_offered(
    shell: str, line: str, offered: List[str], folder: Path
) -> None:
    assert completed(shell, line, folder) == offered


@pytest.mark.parametrize("name", sorted(commands_of(parser())))
def test_all_flags_are_offered(name: str, folder: Path) -> None:
    flags = flags_of(commands_of(parser())[name])
    assert completed("bash", "graph-opt {} -".format(name), folder) == flags


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_free_of_errors_of_syntax(shell: str, folder: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip("{} is not installed".format(shell))
    ran([program, "-n", "script." + shell], folder)
