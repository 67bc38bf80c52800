"""Synchronous training on two ranks: Horovod with copied tables, against tables that are divided.

`wide` and `dlrm`, on this machine, all modes in turns (see modes.py). Figures: `steps_per_s`, with
the floor (the model without messages, and messages of the same size); `cpu_s_per_step` of all
ranks, `ratio_to_horovod`, `ratio_to_sharded`, `ratio_to_distributed_embeddings`; for tables,
counted: `messages_per_step`, `bytes_per_step`, `ratio_to_sok_traffic`; and `overlap_efficiency`.
For a rank that is alone, `ratio_to_unsharded`: what sharding costs with nobody to share with.
"""

from __future__ import annotations

from tools.bench.collectives.figures import FIGURES, outcome_of, params_of
from tools.bench.collectives.launch import RanksFailed, measured_by_ranks
from tools.bench.collectives.modes import ALONE, SHARDED
from tools.bench.collectives.settings import DLRM, WIDE, Setting
from tools.bench.process_outcome import nothing_of, with_figures
from tools.bench.records import Outcome

_ALONE = Setting(WIDE, [*ALONE, *ALONE.values()], with_floor=False, ranks=1)
SETTINGS = (
    Setting(WIDE),
    Setting(DLRM),
    # Counts what is sent with ids as uneven as the goal supposes.
    Setting(WIDE, [SHARDED], zipf=1.2, rounds=1, with_floor=False),
    _ALONE,
    _ALONE._replace(workload=DLRM),
)
_SMALL = Setting(WIDE, batch=32, rows=500, rounds=2, seconds=0.0, quick=True)
QUICK_SETTINGS = (_SMALL, _SMALL._replace(modes=_ALONE.modes, with_floor=False, ranks=1))


def run(quick: bool = False) -> Outcome:
    """Measures every setting; `quick` tries a small one."""
    settings = QUICK_SETTINGS if quick else SETTINGS
    outcome = Outcome(())
    for number, setting in enumerate(settings, start=1):
        title = "{}/{} {}".format(number, len(settings), setting.workload)
        outcome += _measure(setting, title)
    return with_figures(outcome)


def _measure(setting: Setting, title: str) -> Outcome:
    try:
        return outcome_of(setting, measured_by_ranks(setting, title))
    except RanksFailed as error:
        return nothing_of((setting.workload, SHARDED, params_of(setting, 0)), FIGURES, error)
