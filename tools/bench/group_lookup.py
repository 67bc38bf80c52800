"""Lookups in many tables: graph_opt's fused ops, stock TensorFlow, FBGEMM and TFRA, in turns.

    round    floor  tf_ref  tf_safe_ref  tf_resource  ...  graph_opt  fbgemm  tfra    floor  ...

Each program is a process of its own with its tables in memory, and idle while others are measured.
All have as many threads as there are cores, look up the same ids, and take their batches from
memory, which are so many that no cache holds their rows. A turn calls compiled callables for some
tenths of a second; a call of a TensorFlow session looks up to four batches up, so that what a call
costs (some 40 microseconds) is no more of the figure than in PyTorch, whose operator is called
directly. Training is one batch a call everywhere: lookup, its gradient, and the update by Adagrad.

Figures, by `batch`, `ids_per_row`, `distribution` and `pass`:

    microseconds           of one batch, by `implementation`
    ratio_to_tf            of `embedding_lookup_sparse` on ref variables, the best stock form
    ratio_to_tf_safe       of `safe_embedding_lookup_sparse` on ref variables
    ratio_to_fbgemm, ratio_to_tfra
    op_ratio_to_fbgemm     forward, without what a call of the session takes: for small batches
    ratio_over_floor       forward; the floor is the rows read, at the rate of random reads
    ratio_over_copy_floor  the same, with the pooled rows that are written counted as well
"""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from tools.bench.group_lookup_cases import CALL, DISTRIBUTIONS, FORWARD, TRAIN, Size, ids_of
from tools.bench.group_lookup_floor import FloorError, RandomRows
from tools.bench.group_lookup_peers import PROGRAMS, Peer, PeerError, Program
from tools.bench.records import Absent, Goal, Outcome, Record, from_runs
from tools.bench.turns import in_turns, ratios

WORKLOAD = "group_lookup"
OURS = "graph_opt"
FLOOR = "floor"
_MODES = {OURS: "fused", "graph_opt_resource": "fused"}
_MICRO = 1e6
_RATIOS = {
    "ratio_to_tf": "tf_ref",
    "ratio_to_tf_safe": "tf_safe_ref",
    "ratio_to_fbgemm": "fbgemm",
    "ratio_to_tfra": "tfra",
}


class Effort(NamedTuple):
    """What is measured, and for how long.

    Attributes:
        tables: number of tables, each [rows, dimension].
        rows: of a table.
        dimension: of a row.
        batches: batch sizes.
        ids_per_row: ids that are pooled into one row.
        rounds: measured rounds; fewer where a round is long, but one.
        seconds: of a turn.
        case_seconds: after these no further round begins.
    """

    tables: int
    rows: int
    dimension: int
    batches: Tuple[int, ...]
    ids_per_row: Tuple[int, ...]
    rounds: int
    seconds: float
    case_seconds: float


BATCHES = (1, 32, 512, 4096, 32768)
FULL = Effort(26, 200000, 16, BATCHES, (1, 20), rounds=7, seconds=0.15, case_seconds=3)
QUICK = Effort(2, 1000, 16, (64,), (1, 3), rounds=1, seconds=0.002, case_seconds=0)


class Goals(NamedTuple):
    """The goal of a figure: of which pass, and of which batch (None: all)."""

    figure: str
    of_pass: str
    batch: Optional[int]
    goal: Goal


GOALS = (
    Goals("ratio_to_tf_safe", FORWARD, 4096, Goal(">=", 8.0)),
    Goals("ratio_to_fbgemm", FORWARD, None, Goal(">=", 3.0)),
    Goals("ratio_to_tfra", FORWARD, None, Goal(">=", 10.0)),
    Goals("ratio_to_tf", TRAIN, 4096, Goal(">=", 8.0)),
    Goals("ratio_to_fbgemm", TRAIN, None, Goal(">=", 3.0)),
    Goals("ratio_over_floor", FORWARD, 32768, Goal("<=", 1.3)),
)


def run(quick: bool = False) -> Outcome:
    """Measures every case; `quick` only tries that it works."""
    effort = QUICK if quick else FULL
    outcome = Outcome(())
    with Contestants(PROGRAMS) as contestants:
        for batch in effort.batches:
            for ids_per_row in effort.ids_per_row:
                size = Size(effort.tables, effort.rows, effort.dimension, batch, ids_per_row)
                contestants.prepare(size)
                for distribution in DISTRIBUTIONS:
                    contestants.load(ids_of(size, distribution))
                    for of_pass in (FORWARD, TRAIN):
                        outcome += _measured(contestants, effort, size, distribution, of_pass)
    return outcome


class Contestants:
    """The processes, and what they can run. One that fails is absent from then on."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        self.absent: Dict[str, str] = {}  # label of a run, or name of a program: the reason
        self.size: Optional[Size] = None
        self._peers: Dict[str, Peer] = {}
        self.instruction_sets: Dict[str, str] = {}  # label of a run: what it runs
        self._runs: Dict[str, str] = {}  # label of a run: name of its program
        self._floor: Optional[RandomRows] = None
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> Contestants:
        try:
            self._floor = RandomRows()
        except FloorError as error:
            self.absent[FLOOR] = str(error)
        for program in self._programs:
            if program.is_installed:
                self._peers[program.name] = Peer(program)
            else:
                self.absent[program.name] = "it is not installed: see tools/setup/peers.sh"
        return self

    def __exit__(self, *_: Any) -> None:
        for peer in self._peers.values():
            peer.close()
        if self._floor is not None:
            self._floor.close()
        self._folder.cleanup()

    def prepare(self, size: Size) -> None:
        """Has all make their tables, one after another."""
        self.size = size
        self._runs = {}
        for name in list(self._peers):
            with self._fails(name):
                self._peers[name].release()
        for name in list(self._peers):
            with self._fails(name):
                answer = self._peers[name].prepare(size)
                self._runs.update({label: name for label in answer["runs"]})
                self.instruction_sets.update(
                    {label: answer["instruction_set"] for label in answer["runs"]}
                )
                self.absent.update(answer["absent"])

    def load(self, ids: np.ndarray) -> None:
        """Gives all the same ids."""
        path = Path(self._folder.name) / "ids.npy"
        np.save(path, ids)
        for name in list(self._peers):
            with self._fails(name):
                self._peers[name].load(path)

    def of_pass(self, of_pass: str, seconds: float) -> Dict[str, Callable[[], Optional[float]]]:
        """By implementation, a function that gives seconds for each batch; None if it failed."""
        found: Dict[str, Callable[[], Optional[float]]] = {}
        if self._floor is not None and of_pass == FORWARD:
            found[FLOOR] = functools.partial(self._floor_seconds, seconds)
        for label in self._runs:
            implementation, _, its_pass = label.partition(" ")
            if its_pass == of_pass:
                found[implementation] = functools.partial(self._seconds, label, seconds)
        return found

    def seconds(
        self, of_pass: str, rounds: int, seconds: float, limit_seconds: float = math.inf
    ) -> Dict[str, List[float]]:
        """By implementation, seconds of a batch in each round, after a call of each.

        Args:
            of_pass: what is measured.
            rounds: of turns.
            seconds: of a turn.
            limit_seconds: after these no further round begins.
        """
        started = time.monotonic()
        in_turns(self.of_pass(of_pass, 0.0), rounds=1, warm_up=0)
        turns = self.of_pass(of_pass, seconds)
        found: Dict[str, List[Optional[float]]] = {label: [] for label in turns}
        for number in range(rounds):
            if number > 0 and time.monotonic() - started > limit_seconds:
                break
            for label, measured in in_turns(turns, rounds=1, warm_up=0).items():
                found[label].extend(measured)
        return {
            label: [one for one in measured if one is not None]
            for label, measured in found.items()
            if None not in measured
        }

    def _floor_seconds(self, seconds: float) -> float:
        assert self._floor is not None and self.size is not None
        return self.size.looked_up / self._floor.rows_per_s(self.size, seconds)

    def _seconds(self, label: str, seconds: float) -> Optional[float]:
        name = self._runs.get(label)
        if name is None:
            return None
        with self._fails(name):
            return self._peers[name].measure(label, seconds)
        return None

    @contextlib.contextmanager
    def _fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except PeerError as error:
            self.absent[name] = str(error)
            self._peers.pop(name).close()
            self._runs = {label: of for label, of in self._runs.items() if of != name}


def _measured(
    contestants: Contestants, effort: Effort, size: Size, distribution: str, of_pass: str
) -> Outcome:
    params = {
        "batch": size.batch,
        "ids_per_row": size.ids_per_row,
        "distribution": distribution,
        "pass": of_pass,
    }
    seconds = contestants.seconds(of_pass, effort.rounds, effort.seconds, effort.case_seconds)
    return Outcome(
        tuple(_records(seconds, size, params, contestants.instruction_sets)),
        tuple(_absent(contestants, seconds, params)),
    )


def _records(
    seconds: Dict[str, List[float]],
    size: Size,
    params: Dict[str, Any],
    instruction_sets: Dict[str, str],
) -> Iterator[Record]:
    floors = seconds.get(FLOOR, [])
    floor = _MICRO * float(np.median(floors)) if floors else None
    for implementation, runs in seconds.items():
        if implementation == FLOOR:
            continue
        yield from_runs(
            "microseconds",
            WORKLOAD,
            _mode(implementation),
            dict(
                params,
                implementation=implementation,
                instruction_set=instruction_sets["{} {}".format(implementation, params["pass"])],
            ),
            [_MICRO * one for one in runs],
            "us",
            floor=floor,
        )
    if OURS not in seconds:
        return
    for figure, other in _RATIOS.items():
        if other in seconds:
            yield _ratio(figure, params, ratios(seconds[other], seconds[OURS]))
    if CALL in seconds and "fbgemm" in seconds:
        ops = [ours - call for ours, call in zip(seconds[OURS], seconds[CALL])]
        if min(ops) > 0:
            yield _ratio("op_ratio_to_fbgemm", params, ratios(seconds["fbgemm"], ops))
    if floors:
        yield _ratio("ratio_over_floor", params, ratios(seconds[OURS], floors))
        moved = 1.0 + 1.0 / size.ids_per_row  # a pooled row is written for so many that are read
        copies = [moved * one for one in floors]
        yield _ratio("ratio_over_copy_floor", params, ratios(seconds[OURS], copies))


def _ratio(figure: str, params: Dict[str, Any], runs: List[float]) -> Record:
    goal = next(
        (
            one.goal
            for one in GOALS
            if (one.figure, one.of_pass) == (figure, params["pass"])
            and one.batch in (None, params["batch"])
        ),
        None,
    )
    return from_runs(figure, WORKLOAD, _mode(OURS), params, runs, goal=goal)


def _mode(implementation: str) -> str:
    if implementation in _MODES:
        return _MODES[implementation]
    return "stock" if implementation.startswith("tf_") else implementation


def _absent(
    contestants: Contestants, seconds: Dict[str, List[float]], params: Dict[str, Any]
) -> Iterator[Absent]:
    for label, reason in contestants.absent.items():
        implementation, _, its_pass = label.partition(" ")
        if implementation in seconds or its_pass not in ("", params["pass"]):
            continue
        if implementation == FLOOR and params["pass"] != FORWARD:
            continue
        settings = dict(params, implementation=implementation)
        yield Absent("microseconds", WORKLOAD, _mode(implementation), settings, reason)
