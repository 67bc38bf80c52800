"""`make fuzz` on small properties: what it counts, what it prints of failures, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from tools.fuzz.__main__ import main
from tools.fuzz.notes import read_notes
from tools.fuzz.properties import properties_in

REPOSITORY = Path(__file__).resolve().parents[2]
CONFTEST = """
import os
from hypothesis import Phase, settings

phases = [Phase.generate, Phase.shrink]
count = int(os.environ["FUZZ_EXAMPLES"])
settings.register_profile("fuzz", max_examples=count, phases=phases, database=None)
"""
PROPERTIES = """
import os
import threading
import pytest
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.integers(0, 10**6)

@pytest.fixture(scope="module")
def limit():
    return 10

@pytest.mark.fuzz("right")
@given(NUMBERS)
def test_right(number):
    pass

@pytest.mark.fuzz("wrong")
@given(number=NUMBERS)
def test_wrong(limit, number):
    assert number < limit

@pytest.mark.fuzz("fatal")
@given(NUMBERS)
def test_fatal(number):
    if number >= 10:
        os.abort()

@pytest.mark.fuzz("stuck")
@given(NUMBERS)
def test_stuck(number):
    if number >= 10:
        print("it waits", flush=True)
        threading.Event().wait()
"""
BROKEN = """
import pytest
import a_module_that_is_not_there

@pytest.mark.fuzz("broken")
def test_broken(number):
    pass
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder of properties."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_planted.py").write_text(PROPERTIES)
    return tmp_path


def fuzzed(capfd: Any, folder: Path, *flags: str) -> Tuple[int, str]:
    """The exit code, and what was printed."""
    code = main(["--tests", str(folder), "--seed", "7", *flags])
    return code, str(capfd.readouterr().out)


def table(printed: str) -> Dict[str, List[str]]:
    """The rows of the table: models, failures, seconds."""
    rows = re.findall(r"^(\w+) +(\d+) +(\d+)(?: +([\d.]+))?$", printed, re.MULTILINE)
    return {kind: list(cells) for kind, *cells in rows}


def test_models_that_ran_are_counted(capfd: Any, planted: Path) -> None:
    code, printed = fuzzed(capfd, planted, "--kinds", "right", "--models", "130")
    assert code == 0
    assert printed.startswith("seed 7, 600 s\n")
    assert table(printed)["right"][:2] == ["130", "0"]
    assert "right: 130 models" in printed


@pytest.mark.slow
def test_a_failure_is_printed_so_that_it_can_be_repeated(capfd: Any, planted: Path) -> None:
    code, printed = fuzzed(capfd, planted, "--kinds", "right,wrong", "--models", "20")
    assert code == 1
    assert table(printed)["right"][:2] == ["20", "0"]
    models, failures, _ = table(printed)["wrong"]
    assert 1 <= int(models) <= 20 and failures == "1"
    assert "@example(number=10)\n" in printed
    (seed,) = re.findall(r"^wrong, seed (\d+): AssertionError", printed, re.MULTILINE)
    (command,) = re.findall(r"^FUZZ_EXAMPLES=20 .*$", printed, re.MULTILINE)
    assert "--hypothesis-seed=" + seed in command
    again = subprocess.run(
        command, shell=True, cwd=str(REPOSITORY), stdout=subprocess.PIPE, text=True, timeout=300
    )
    assert again.returncode == 1 and "number=10" in again.stdout
    assert seed in fuzzed(capfd, planted, "--kinds", "wrong", "--models", "20")[1]


def test_a_crash_is_a_failure_of_the_model_that_ran(capfd: Any, planted: Path) -> None:
    code, printed = fuzzed(capfd, planted, "--kinds", "fatal,right", "--models", "50")
    assert code == 1
    assert table(printed)["right"][:2] == ["50", "0"]
    assert re.search(r"^fatal, seed \d+: ended by signal 6$", printed, re.MULTILINE)
    (number,) = re.findall(r"^@example\(number=(\d+)\)$", printed, re.MULTILINE)
    assert int(number) >= 10


def test_a_model_that_hangs_is_a_failure_with_its_stacks(capfd: Any, planted: Path) -> None:
    flags = ["--models", "50", "--silent-seconds", "2"]
    code, printed = fuzzed(capfd, planted, "--kinds", "stuck", *flags)
    assert code == 1
    assert re.search(r"^stuck, seed \d+: it hangs; it has printed:$", printed, re.MULTILINE)
    assert re.search(r"^@example\(number=\d+\)$", printed, re.MULTILINE)
    assert "it waits\n" in printed
    assert re.search(r"^  File .*test_planted.py., line \d+ in test_stuck$", printed, re.MULTILINE)
    (process,) = re.findall(r"^process (\d+): .*pytest.*test_stuck", printed, re.MULTILINE)
    native = printed[printed.index("process " + process + ": ") :]
    assert re.search(r"^#0 .*|^\d+ \S+ [RSD] ", native, re.MULTILINE)
    assert _processes_naming(str(planted)) == []


def test_a_test_that_cannot_be_collected_is_a_failure(capfd: Any, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_broken.py").write_text(BROKEN)
    code, printed = fuzzed(capfd, tmp_path, "--models", "5")
    assert code == 1
    assert "No module named 'a_module_that_is_not_there'" in printed


def test_it_ends_in_time(capfd: Any, planted: Path) -> None:
    code, printed = fuzzed(capfd, planted, "--kinds", "right", "--seconds", "0")
    assert code == 0
    assert table(printed)["right"][:2] == ["0", "0"]


def test_an_interrupt_ends_it_with_the_table_so_far(planted: Path) -> None:
    flags = ["--tests", str(planted), "--kinds", "right", "--processes", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.fuzz", *flags],
        cwd=str(REPOSITORY),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    before = [process.stdout.readline(), process.stdout.readline()]
    process.send_signal(signal.SIGINT)
    after, _ = process.communicate(timeout=60)
    assert before[1] == "right: 100 models\n"
    assert process.returncode == 0
    assert after.startswith("interrupted\n")
    assert int(table(after)["right"][0]) >= 100
    assert _processes_naming(str(planted)) == []


def _processes_naming(text: str) -> List[str]:
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue  # It has ended.
        if text in line and int(entry.parent.name) != os.getpid():
            lines.append(line)
    return lines


def test_an_unknown_kind_is_refused(capfd: Any, planted: Path) -> None:
    with pytest.raises(SystemExit):
        main(["--tests", str(planted), "--kinds", "left"])
    told = "no kind ['left']; there are ['fatal', 'right', 'stuck', 'wrong']"
    assert told in capfd.readouterr().err


def test_a_kind_has_one_property(planted: Path) -> None:
    (planted / "test_twice.py").write_text('@pytest.mark.fuzz("right")\ndef test_x(): pass\n')
    with pytest.raises(ValueError, match="two tests are marked fuzz\\('right'\\)"):
        properties_in(planted)


def test_the_repository_has_all_kinds() -> None:
    kinds = "async exact feeds fetches fused graph limits ranks repeated servers".split()
    assert sorted(properties_in(REPOSITORY / "tests")) == kinds


def test_notes_of_a_killed_process_are_read(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    assert read_notes(notes) == (0, 0.0, "", "")
    ran = '{"begins": "@example(1)"}\n{"seconds": 0.5, "error": ""}\n'
    notes.write_text(ran + '{"begins": "@example(2)"}\n{"seco')
    assert read_notes(notes) == (1, 0.5, "@example(2)", "")
