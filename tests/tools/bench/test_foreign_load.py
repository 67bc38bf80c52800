"""Figures of rounds beside which other processes used the machine are refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from typing import Iterator

import pytest

from tools.bench import foreign_load
from tools.bench.foreign_load import BusyMachineError, add, quiet_round, used_by_own, watched
from tools.bench.turns import in_turns

SPUN = 0.3
SPIN = "import time\nwhile time.process_time() < {}: pass".format(SPUN)


def spin() -> str:
    """Uses so many seconds of CPU time."""
    end = time.process_time() + SPUN
    while time.process_time() < end:
        pass
    return "spun"


@pytest.fixture
def of_another(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A benchmark of another process, to which this one is foreign."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        monkeypatch.setenv(foreign_load.VARIABLE, "{} 1".format(other.pid))
        yield
        assert other.stdin is not None
        other.stdin.write(b"\n")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(foreign_load.VARIABLE, raising=False)


def test_what_another_process_uses_is_refused(of_another: None) -> None:
    with watched() as rounds, pytest.raises(BusyMachineError, match=r"of \d+ cores in .* --busy"):
        quiet_round(spin, attempts=1)
    assert rounds == []


def test_it_is_kept_where_it_may_be_and_says_so(alone: None) -> None:
    with watched(refuses=False) as rounds:
        assert quiet_round(spin) == "spun"
        add([[0.0, 0.5, 2]])
    assert [each.attempts for each in rounds] == [1, 2]


def test_a_process_refuses_what_the_one_that_started_it_does(of_another: None) -> None:
    with watched(refuses=False), pytest.raises(BusyMachineError):
        in_turns({"a": spin}, rounds=1, attempts=1)


def test_all_processes_measure_again_what_one_of_them_says(
    alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_load, "SECONDS_TO_WAIT", 0.0)
    said = iter([1, 0])
    calls = itertools.count(1)
    with watched(refuses=False) as rounds:
        assert quiet_round(lambda: next(calls), agreed=lambda _: next(said)) == 2
    assert [each.attempts for each in rounds] == [2]


def test_own_are_this_process_and_those_it_started(alone: None) -> None:
    before = sum(used_by_own().values())
    spin()
    subprocess.run([sys.executable, "-c", SPIN], check=True)
    assert sum(used_by_own().values()) - before >= 2 * SPUN - 0.03


def test_outside_a_benchmark_nothing_is_watched(of_another: None) -> None:
    assert quiet_round(spin, attempts=1) == "spun"
