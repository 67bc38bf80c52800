"""More ranks than a machine has cores for: simulated, from what 2 and 4 of them measured.

Every rank trains `wide` on batches of its own, so more ranks train on more rows at once. Measured:
`bytes_per_step` that a rank sends, `cpu_s_per_step` of a rank; among 2, 4 and 8 ranks `message_s`,
the time of a message of few bytes, and `message_cpu_s`, what it takes the first rank. Simulated
for 1 to 512 ranks, each with a core of its own: `simulated_bytes`, which enter or leave the
busiest rank, whichever are more; `unevenness`, the rows asked of the busiest rank over the mean;
`simulated_s_per_step`. Modes are where rows are (load.py).
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from tools.bench.collectives.launch import RanksFailed, measured_by_ranks
from tools.bench.collectives.modes import FUSED, HOROVOD, LOCAL, SHARDED
from tools.bench.collectives.settings import WIDE, Setting
from tools.bench.records import Absent, Outcome, Record, from_runs
from tools.bench.scaling.cost import (
    Costs,
    Measured,
    Messages,
    costs_of,
    measured_by,
    messages_by,
)
from tools.bench.scaling.load import (
    MOD,
    PLACEMENTS,
    REPLICATED,
    Lookups,
    hashed_zipf,
    load_of,
    lookups_of,
    replicated_bytes,
    zipf,
)
from tools.bench.workloads.measured import WIDE_WIDTH
from tools.bench.workloads.wide.data import DataOptions

HASHED = "hashed"
BY_FREQUENCY = "by_frequency"
MEASURED_RANKS = (2, 4)
MESSAGE_RANKS = (2, 4, 8)
SIMULATED_RANKS = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512)
BATCH = 512
_EMPTY = Setting(WIDE, [SHARDED], batch=32, rows=500, rounds=5, seconds=0.2, quick=True)


def run(quick: bool = False) -> Outcome:
    """Measures a few ranks and simulates more; `quick` tries it with next to no training."""
    measured: List[Measured] = []
    messages: List[Messages] = []
    absent: List[Absent] = []
    for ranks in MEASURED_RANKS[: 1 if quick else None]:
        modes = [SHARDED, FUSED] + [HOROVOD] * (ranks == MEASURED_RANKS[0])
        setting = Setting(WIDE, modes, batch=BATCH, rounds=3, seconds=0.5, ranks=ranks)
        if quick:
            setting = _EMPTY._replace(modes=modes, ranks=ranks)
        try:
            measured.append(measured_by(measured_by_ranks(setting, _title(ranks))))
        except RanksFailed as error:
            absent.append(Absent("bytes_per_step", WIDE, MOD, {"ranks": ranks}, str(error)))
    for ranks in MESSAGE_RANKS[: 1 if quick else None]:
        try:
            setting = _EMPTY._replace(ranks=ranks)
            messages.append(messages_by(measured_by_ranks(setting, _title(ranks))))
        except RanksFailed as error:
            absent.append(Absent("message_s", WIDE, "", {"ranks": ranks}, str(error)))
    fewest = MEASURED_RANKS[0]
    if not all(taken and taken[0].ranks == fewest for taken in (measured, messages)):
        raise RuntimeError("nothing came to figures: {}".format(absent[0].reason))
    return outcome_of(measured, messages) + Outcome((), tuple(absent))


def outcome_of(measured: Sequence[Measured], messages: Sequence[Messages]) -> Outcome:
    """What was measured, and what is simulated from it."""
    records: List[Record] = []

    def add(figure: str, mode: str, ranks: int, runs: List[float], unit: str) -> None:
        if runs:
            records.append(from_runs(figure, WIDE, mode, {"ranks": ranks}, runs, unit))

    for each in measured:
        add("bytes_per_step", MOD, each.ranks, each.sent, "bytes")
        add("bytes_per_step", REPLICATED, each.ranks, each.sent_replicated, "bytes")
        add("cpu_s_per_step", LOCAL, each.ranks, each.local_s, "s")
        add("cpu_s_per_step", MOD, each.ranks, each.divided_s, "s")
        add("cpu_s_per_step", REPLICATED, each.ranks, each.replicated_s, "s")
    for sent in messages:
        add("message_s", "", sent.ranks, sent.seconds, "s")
        add("message_cpu_s", "", sent.ranks, sent.first_cpu_s, "s")
    costs = costs_of(measured, messages)
    for ids, lookups in lookups_of_wide().items():
        for ranks in SIMULATED_RANKS:
            params = {"ranks": ranks, "ids": ids}
            records.extend(_simulated(lookups, params, costs))
    return Outcome(tuple(records))


def _title(ranks: int) -> str:
    return "{} ranks".format(ranks)


def lookups_of_wide() -> Dict[str, Lookups]:
    """What a rank's batch of `wide` asks for, by how its ids are numbered."""
    options = DataOptions()
    draws = BATCH * (1 + options.most_ids) / 2
    chances = {HASHED: hashed_zipf(options), BY_FREQUENCY: zipf(options.buckets, options.zipf)}
    return {
        ids: lookups_of(each, draws, options.columns, WIDE_WIDTH) for ids, each in chances.items()
    }


def _simulated(lookups: Lookups, params: Dict[str, Any], costs: Costs) -> List[Record]:
    ranks = params["ranks"]
    records = []

    def add(figure: str, mode: str, value: float, unit: str = "") -> None:
        records.append(Record(figure, WIDE, mode, params, value, unit))

    for placement in PLACEMENTS:
        load = load_of(lookups, placement, ranks)
        add("simulated_bytes", placement, load.passing(), "bytes")
        add("unevenness", placement, load.unevenness)
        add("simulated_s_per_step", placement, costs.of_step(load), "s")
    add("simulated_bytes", REPLICATED, replicated_bytes(lookups, ranks), "bytes")
    add("simulated_s_per_step", REPLICATED, costs.of_replicated_step(lookups, ranks), "s")
    return records
