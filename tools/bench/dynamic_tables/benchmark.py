"""Dynamic tables against static ones, TFRA's and TensorFlow's hash tables, in turns.

    round    floor  static  dynamic  tfra  mutable    floor  static  ...

Bags of 26 ids, 4,096 of them in a batch, in one table. Each program is a process of its own (see
`tools.bench.group_lookup`). Figures, by `keys`, `distribution` and `pass`:

    microseconds       of a batch, by `implementation`
    ratio_to_static    our own static table of as many rows: its time over the dynamic table's;
                       also of `dlrm`, trained with the lookups ahead of the step
    ratio_to_tfra, ratio_to_mutable
    ratio_over_floor   forward, uniform: the floor is one random read for the index and one for the
                       row of each id, as fast as all cores read memory at random
    bytes_per_key      beyond rows and slots
    ratio_to_memory    a table of four times its memory budget against one in memory
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from tools.bench.dynamic_tables.passes import ADAM, INSERT, PASSES
from tools.bench.dynamic_tables.storage import bytes_per_key, ratio_to_memory
from tools.bench.dynamic_tables.training import BATCH, ratio_to_static
from tools.bench.group_lookup import FLOOR, Contestants
from tools.bench.group_lookup_cases import DISTRIBUTIONS, TRAIN, UNIFORM, Size, ids_of
from tools.bench.group_lookup_peers import TFRA, Program
from tools.bench.machine import available_bytes
from tools.bench.process_outcome import nothing_of
from tools.bench.records import Absent, Goal, Outcome, Record, from_runs
from tools.bench.turns import ratios

WORKLOAD = "dynamic"
OURS = "dynamic"
STATIC = "static"
_MICRO = 1e6
_READS_OF_AN_ID = 2.0  # of the index, and of the row
# Of a row: static and dynamic tables with Adagrad's accumulators, and the static one's values while
# they are made.
_TIMES_ROW = 5
_BYTES_PER_KEY = 40
_RATIOS = {"ratio_to_static": STATIC, "ratio_to_tfra": "tfra", "ratio_to_mutable": "mutable"}
_GOALS = {"ratio_to_static": Goal(">=", 0.5), "ratio_to_tfra": Goal(">=", 5.0)}


def _program(name: str) -> Program:
    return Program(name, "tools.bench.dynamic_tables." + name, TFRA.python)


# TFRA fills its tables by feeding all rows at once, and nodes of TensorFlow's are twice the rows.
_MOST_ROWS_OF_OTHERS = 10000000
_OURS = (_program(STATIC), _program(OURS))
PROGRAMS = (*_OURS, TFRA, _program("mutable"))


class Effort(NamedTuple):
    """Numbers of keys, size of a batch, rounds, seconds of each turn; steps of a turn of DLRM."""

    keys: Tuple[int, ...]
    batch: int
    ids_per_row: int
    rounds: int
    seconds: float
    steps: int


FULL = Effort((1000000, 10000000, 50000000), 4096, 26, rounds=4, seconds=0.25, steps=80)
QUICK = Effort((20000,), 64, 26, rounds=1, seconds=0.01, steps=3)


def run(quick: bool = False) -> Outcome:
    """Measures every case; `quick` only tries that it works."""
    effort = QUICK if quick else FULL
    outcome = Outcome(())
    for keys in effort.keys:
        size = Size(1, keys, 16, effort.batch, effort.ids_per_row)
        needed = keys * (_TIMES_ROW * size.row_bytes + _BYTES_PER_KEY)
        if needed > available_bytes():
            reason = "needs {:.0f} GiB of memory".format(needed / 2.0**30)
            outcome += nothing_of((WORKLOAD, OURS, {"keys": keys}), ["microseconds"], reason)
            continue
        outcome += _of_tables(size) + _of_size(size, effort)
    return outcome + _of_training(effort, quick)


def _of_training(effort: Effort, quick: bool) -> Outcome:
    quotients = ratio_to_static(effort.steps, effort.rounds, quick)
    params = {"batch": BATCH, "keys": "as they come"}
    goal = Goal(">=", 1.0)
    record = from_runs("ratio_to_static", "dlrm", "both", params, quotients, goal=goal)
    return Outcome((record,))


def _of_tables(size: Size) -> Outcome:
    params = {"keys": size.rows}
    used, most = [bytes_per_key(size)], Goal("<=", 40.0)
    records = [from_runs("bytes_per_key", WORKLOAD, OURS, params, used, "bytes", goal=most)]
    if size.rows <= _MOST_ROWS_OF_OTHERS:
        of_pass = dict(params, distribution="zipf", **{"pass": TRAIN})
        quotients = ratio_to_memory(size)
        goal = Goal(">=", 0.5)
        records.append(
            from_runs("ratio_to_memory", WORKLOAD, "tiers", of_pass, quotients, goal=goal)
        )
    return Outcome(tuple(records))


def _of_size(size: Size, effort: Effort) -> Outcome:
    outcome = Outcome(())
    programs = PROGRAMS if size.rows <= _MOST_ROWS_OF_OTHERS else _OURS
    with Contestants(programs) as contestants:
        contestants.prepare(size)
        for distribution in DISTRIBUTIONS:
            contestants.load(ids_of(size, distribution))
            for of_pass in PASSES:
                outcome += _measured(contestants, effort, size, distribution, of_pass)
    return outcome


def _measured(
    contestants: Contestants, effort: Effort, size: Size, distribution: str, of_pass: str
) -> Outcome:
    params = {"keys": size.rows, "distribution": distribution, "pass": of_pass}
    seconds = contestants.seconds(of_pass, effort.rounds, effort.seconds)
    absent = [
        Absent("microseconds", WORKLOAD, label, params, reason)
        for label, reason in contestants.absent.items()
        if of_pass not in (INSERT, ADAM) or label == OURS
    ]
    return Outcome(tuple(_records(seconds, params)), tuple(absent))


def _records(seconds: Dict[str, List[float]], params: Dict[str, Any]) -> Iterator[Record]:
    floors = [_READS_OF_AN_ID * one for one in seconds.pop(FLOOR, [])]
    for label, runs in seconds.items():
        micros = [_MICRO * one for one in runs]
        named = dict(params, implementation=label)
        yield from_runs("microseconds", WORKLOAD, label, named, micros, "us")
    ours = seconds.get(OURS)
    if ours is None:
        return
    for figure, other in _RATIOS.items():
        if other in seconds:
            quotients = ratios(seconds[other], ours)
            goal = _GOALS.get(figure)
            yield from_runs(figure, WORKLOAD, OURS, params, quotients, goal=goal)
    if floors and params["distribution"] == UNIFORM:
        yield from_runs("ratio_over_floor", WORKLOAD, OURS, params, ratios(ours, floors))
