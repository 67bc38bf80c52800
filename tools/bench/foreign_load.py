"""Keeps figures of a busy machine out: what other processes used while a benchmark ran.

A figure is a ratio of two things run in turn. A steady load changes it little; a load that comes
and goes, or that takes one of two cores, changes it a lot. So the CPU time of all processes but the
benchmark's own is taken around each round. A round that had to share the machine is run again, and
a benchmark that finds no quiet round in several attempts ends with the names of the others.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
)

VARIABLE = "GRAPH_OPT_BENCH"
"""Environment variable with the ID of the process whose descendants are the benchmark's own, and
whether it refuses figures of a busy machine: `812 1`."""

LARGEST_LOAD = 0.15
"""Cores that others may use on average in a round, which a desktop's daemons stay below."""

LEAST_SECONDS = 0.06
"""CPU time of others that is noticed; the kernel counts in units of 0.01 s."""

ATTEMPTS = 6
"""How often a round is run before the machine is called busy."""

SECONDS_TO_WAIT = 20.0
"""How long others may go on before the next attempt."""

_SECONDS_BEFORE = 0.1
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")

Measured = TypeVar("Measured")


class BusyMachineError(RuntimeError):
    """Others used the machine in every attempt at a round."""


class RoundLoad(NamedTuple):
    """What others used around a round, in cores on average.

    Attributes:
      before: in the moment before the round.
      during: in the round.
      attempts: how often the round was run.
    """

    before: float
    during: float
    attempts: int


class _Clock(NamedTuple):
    """Wall-clock time, and CPU time used since the machine and the processes began; in seconds."""

    wall: float
    all: float
    own: float


class _Watch:
    def __init__(self, refuses: bool) -> None:
        self.refuses = refuses
        self.rounds: List[RoundLoad] = []


_watch: Optional[_Watch] = None


@contextlib.contextmanager
def watched(refuses: bool = True) -> Iterator[List[RoundLoad]]:
    """Records the load of the rounds in a block.

    Args:
      refuses: whether a round beside which others ran is repeated, and ends the benchmark with
        `BusyMachineError` if it never succeeds. What the process that started this one refuses
        comes before it.

    Yields:
      The rounds of this process, to which those that run are added.
    """
    global _watch
    root, _, theirs = os.environ.get(VARIABLE, "").partition(" ")
    outer, _watch = _watch, _Watch(theirs == "1" if root else refuses)
    if not root:
        os.environ[VARIABLE] = "{} {}".format(os.getpid(), int(refuses))
    try:
        yield _watch.rounds
    finally:
        _watch = outer
        if not root:
            del os.environ[VARIABLE]


def add(rounds: Iterable[Sequence[Any]]) -> None:
    """Adds the rounds of another process, as JSON has them, to those of this one."""
    if _watch is not None:
        _watch.rounds.extend(RoundLoad(*each) for each in rounds)


def quiet_round(
    measure: Callable[[], Measured],
    agreed: Callable[[int], int] = int,
    attempts: int = ATTEMPTS,
) -> Measured:
    """Measures a round, again and again if need be, until nobody else used the machine in it.

    Outside `watched` it is measured once.

    Args:
      measure: runs the round.
      agreed: what all processes that take part make of a number of one of them.
      attempts: how often it may run.

    Raises:
      BusyMachineError: there was foreign load in all attempts.
    """
    if _watch is None:
        return measure()
    for attempt in range(1, attempts + 1):
        before = load_of(lambda: time.sleep(_SECONDS_BEFORE))
        clock = _clock()
        measured = measure()
        during = _load_between(clock, _clock())
        if not agreed(int(_watch.refuses and during > LARGEST_LOAD)):
            _watch.rounds.append(RoundLoad(round(before, 2), round(during, 2), attempt))
            return measured
        if attempt < attempts:
            _wait_for_rest()
    raise BusyMachineError(
        "other processes used {:.1f} of {} cores in the last of {} attempts at a round: {}. "
        "End them, or keep the figures, which then say so, with --busy".format(
            during, os.cpu_count(), attempts, ", ".join(_busiest()) or "ended meanwhile"
        )
    )


def load_of(run: Callable[[], Any]) -> float:
    """Cores that others used on average while something ran."""
    before = _clock()
    run()
    return _load_between(before, _clock())


def _load_between(before: _Clock, after: _Clock) -> float:
    others = (after.all - before.all) - (after.own - before.own)
    wall = after.wall - before.wall
    return others / wall if others > LEAST_SECONDS and wall else 0.0


def _wait_for_rest() -> None:
    """Returns once others rest, or after some seconds."""
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while time.monotonic() < deadline and load_of(lambda: time.sleep(1.0)) > LARGEST_LOAD:
        pass


def _clock() -> _Clock:
    return _Clock(time.monotonic(), _used_by_all(), sum(used_by_own().values()))


def _used_by_all() -> float:
    """Seconds that all processes, the kernel and the host of a virtual machine took."""
    fields = (_PROC / "stat").read_text("ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = map(int, fields[:8])
    return (user + nice + system + interrupts + soft_interrupts + stolen) * _TICK


class _Process(NamedTuple):
    name: str
    parent: int
    seconds: float  # with those of its children that ended and were waited for


def used_by_own() -> Dict[int, float]:
    """CPU seconds of the benchmark's processes, by their IDs."""
    processes = _processes()
    own = {int(os.environ.get(VARIABLE, str(os.getpid())).split()[0])}
    size = 0
    while size < len(own):
        size = len(own)
        own |= {number for number, process in processes.items() if process.parent in own}
    return {number: processes[number].seconds for number in own if number in processes}


def _processes() -> Dict[int, _Process]:
    found = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text("utf-8", errors="replace")
        except OSError:  # It ended.
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        seconds = sum(map(int, fields[11:15])) * _TICK
        found[int(folder.name)] = _Process(name, int(fields[1]), seconds)
    return found


def _busiest() -> List[str]:
    """The others that use most, such as `cc1plus (pid 812): 0.9`, in cores."""
    before, started = _processes(), time.monotonic()
    time.sleep(0.5)
    own, wall = used_by_own(), time.monotonic() - started
    used = {
        number: (process.seconds - before[number].seconds) / wall
        for number, process in _processes().items()
        if number in before and number not in own
    }
    return [
        "{} (pid {}): {:.1f}".format(before[number].name, number, used[number])
        for number in sorted(used, key=lambda number: -used[number])[:3]
        if used[number] > 0.01
    ]
