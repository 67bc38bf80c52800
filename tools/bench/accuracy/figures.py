"""The figures of a data set, from its trainings.

    auc                 on held-out rows, after an epoch
    auc_beside_stock    the same, less that of TensorFlow alone with the same seed
    log_loss            on held-out rows
    rows_missing        of the rows that sampled steps used, the share that had missed so many
    missed_updates      how many updates a row had missed on average
    relative_l2         |stale - fresh| / |fresh|, of the rows that sampled steps used

A run is the training of one seed. Samples are those of all seeds together.
"""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tools.bench.accuracy.cases import BATCH, Way
from tools.bench.process_outcome import nothing_of
from tools.bench.records import Outcome, Record, from_runs
from tools.bench.training.sessions import STOCK
from tools.bench.workloads.scoring import Score

Group = Tuple[int, Optional[int]]

# Updates missed, from and to: the histogram as docs/ shows it.
GROUPS: Tuple[Group, ...] = ((0, 0), (1, 1), (2, 3), (4, 8), (9, 32), (33, None))


class Trained(NamedTuple):
    """A training.

    Attributes:
        steps: of an epoch.
        score: on held-out rows.
        staleness: of its report, a `graph_opt` record for each table; empty if nothing ran ahead.
    """

    steps: int
    score: Score
    staleness: Sequence[Any]


def outcome_of(case: str, found: Dict[Way, List[Trained]]) -> Outcome:
    """All figures.

    Args:
        case: the data set.
        found: the trainings of each way, in the order of seeds, TensorFlow alone among them.
    """
    stock = next(runs for way, runs in found.items() if way.mode == STOCK)
    records: List[Record] = []
    for way, runs in found.items():
        params: Dict[str, Any] = {"batch": BATCH, "steps": runs[0].steps}
        if way.capacity is not None:
            params["capacity"] = way.capacity
        where = (case, way.mode, params)
        scores = [each.score for each in runs]
        records.append(from_runs("auc", *where, [score.auc for score in scores]))
        records.append(from_runs("log_loss", *where, [score.log_loss for score in scores]))
        if way.mode != STOCK:
            apart = [ours.score.auc - theirs.score.auc for ours, theirs in zip(runs, stock)]
            records.append(from_runs("auc_beside_stock", *where, apart))
        records += _staleness(where, runs)
    return Outcome(tuple(records))


def absent_outcome(case: str, reason: object) -> Outcome:
    """That of a data set which is not there."""
    return nothing_of((case, STOCK, {}), ["auc"], reason)


def _staleness(where: Tuple[str, str, Dict[str, Any]], runs: Sequence[Trained]) -> List[Record]:
    tables = [table for each in runs for table in each.staleness if not table.uncounted]
    if not tables:
        return []
    histogram = [0] * max(len(table.missed) for table in tables)
    for table in tables:
        for updates, rows in enumerate(table.missed):
            histogram[updates] += rows
    everything = sum(histogram)
    case, mode, params = where
    records = [
        Record(
            "rows_missing",
            case,
            mode,
            dict(params, **_group(first, last)),
            sum(histogram[first : None if last is None else last + 1]) / everything,
        )
        for first, last in GROUPS
    ]
    mean = sum(updates * rows for updates, rows in enumerate(histogram)) / everything
    records.append(Record("missed_updates", *where, mean))
    typical = statistics.median(table.relative_l2 for table in tables)
    records.append(Record("relative_l2", *where, typical))
    return records


def _group(first: int, last: Optional[int]) -> Dict[str, int]:
    return {"first": first} if last is None else {"first": first, "last": last}
