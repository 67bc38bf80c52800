"""Whatever a file has in it, a command ends by one of its exit codes, soon, in little memory."""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import signal
import traceback
from pathlib import Path
from typing import Any, Iterator, Sequence

import pytest
from hypothesis import given

from graph_opt.cli.child_process import in_child_process
from graph_opt.cli.main import main
from tests.cli.damaged_files import TARGETS, Target, damaged
from tests.example_share import example_share

MOST_SECONDS = 20.0
MOST_KIB = 1 << 20
# These are read as other files are.
ALIKE = {"rewritten graph", "planned graph", "packed graph", "large text"}
QUICK = [name for name in TARGETS if name not in ALIKE]


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Fails if what is inside takes more CPU time or memory than a command may."""

    def too_long(*_: Any) -> None:
        raise AssertionError("more than {} s".format(MOST_SECONDS))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handler = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KIB


def ends_well(folder: Path, command: Sequence[str]) -> int:
    """Runs a command; one that fails says why in one line."""
    printed = io.StringIO()
    with limited(), contextlib.redirect_stdout(io.StringIO()):
        with contextlib.redirect_stderr(printed):
            code = main([one.format(folder) for one in command])
    assert code in (0, 1, 2)
    lines = [line for line in printed.getvalue().splitlines() if line.startswith("graph-opt: ")]
    assert code == 0 or len(lines) == 1, printed.getvalue()
    assert "Traceback" not in printed.getvalue()
    return code


def ends_well_apart(folder: Path, command: Sequence[str]) -> int:
    """The same in a process of its own, as TensorFlow may end it."""
    fault = folder / "fault"

    def run() -> int:
        try:
            return ends_well(folder, command)
        except BaseException:
            fault.write_text(traceback.format_exc(), "utf-8")
            return 99

    code = in_child_process(run, crashed=lambda name: 2)
    assert code != 99, fault.read_text("utf-8")
    return code


def try_damaged(target: Target, folder: Path, share: float) -> None:
    target.make(folder)
    path = folder / target.file
    content = target.opened(path.read_bytes())
    path.write_bytes(target.sealed(content))
    assert ends_well(folder, target.command) == 0  # And so processes of their own begin quickly.
    end = ends_well_apart if target.infers_shapes else ends_well

    @example_share(share)
    @given(damaged(content))
    def try_one(data: bytes) -> None:
        path.write_bytes(target.sealed(data))
        end(folder, target.command)

    try_one()


@pytest.mark.parametrize("name", QUICK)
def test_a_damaged_file_is_one_clear_error(name: str, tmp_path: Path) -> None:
    try_damaged(TARGETS[name], tmp_path, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TARGETS))
def test_many_damaged_files_are_clear_errors(name: str, tmp_path: Path) -> None:
    try_damaged(TARGETS[name], tmp_path, 5)


def nested_text(levels: int, padding: str = "") -> str:
    """A graph in which messages are nested to a depth."""
    inner = 'attr { value { func { name: "f" ' * ((levels - 1) // 3)
    inner += "attr { } " * ((levels - 1) % 3 > 0)
    closed = " } } }" * ((levels - 1) // 3)
    return 'node {{ name: "a{{{{" op: "NoOp" {}{} }}\n{}'.format(inner, closed, padding)


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize(("levels", "code"), [(60, 0), (100, 0), (103, 2), (500, 2), (20_000, 2)])
def test_texts_nested_deeper_than_protobuf_reads_are_an_error(
    size: str, levels: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    padding = "# a comment {{{ \n" * (10_000 if size == "large" else 1)
    path = tmp_path / "graph.pbtxt"
    path.write_text(nested_text(levels, padding), "utf-8")
    assert main(["inspect", str(path)]) == code
    assert code == 0 or "graph.pbtxt:1: " in capsys.readouterr().err
    config = tmp_path / "config.pbtxt"
    config.write_text("a { " * levels + padding, "utf-8")
    assert main(["inspect", str(path), "--config", str(config)]) == 2
    if code:
        assert "nested deeper than 100 levels" in capsys.readouterr().err


def test_large_texts_with_strings_that_are_not_utf8_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_bytes(b'node { name: "a\\377" op: "NoOp" }\n' + b"# a comment\n" * 20_000)
    assert main(["inspect", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "graph.pbtxt:1" in line and "not a text proto" in line


def aborts() -> int:
    print("begun")
    os.abort()


def test_what_ends_the_process_of_a_command_is_an_error_like_any_other(tmp_path: Path) -> None:
    told = []

    def crashed(name: str) -> int:
        told.append(name)
        return 2

    assert in_child_process(aborts, crashed) == 2
    assert in_child_process(lambda: 1, crashed) == 1
    assert told == ["SIGABRT"]


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('op: "Identity"', 'op: ""', "a node has no name or no op"),
        (
            "dtype: DT_INT32\n      tensor_shape",
            "dtype: DT_INVALID\n      tensor_shape",
            "no value",
        ),
    ],
)
def test_texts_of_no_graph_are_an_error(
    old: str, new: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TARGETS["text"].make(tmp_path)
    path = tmp_path / "f"
    text = path.read_text("utf-8")
    replaced = re.sub(re.sub(r"\s+", r"\\s+", old), new, text)
    assert replaced != text
    path.write_text(replaced, "utf-8")
    assert main(["inspect", str(path)]) == 2
    assert word in capsys.readouterr().err
