"""One workload with Adam: stock, deferred and lazy, measured alternately.

python -m tools.bench.adam.scenario --workload dlrm --rows 200000 --delay-ms 1 --output FILE
"""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import Iterator, List, Optional, Sequence

import tensorflow.compat.v1 as tf

import graph_opt
from tools.bench.adam.figures import outcome_of
from tools.bench.adam.scenarios import DLRM, WIDE, Scenario, scenario_of
from tools.bench.adam.traffic import MemoryCopy, Traffic, rows_per_step
from tools.bench.argument_types import milliseconds, positive
from tools.bench.cluster.loopback import start_cluster
from tools.bench.records import Outcome
from tools.bench.training.contenders import Contender, Setting, open_trainer
from tools.bench.training.sessions import ADAM_MODES, STOCK
from tools.bench.turns import TimedSchedule, run_in_timed_turns
from tools.bench.workloads.workload import Learning, training_graph

LEARNING = Learning("adam", 0.001)


FULL = TimedSchedule(rounds=7, seconds=0.4)
QUICK = TimedSchedule(rounds=2, seconds=0.0)


def measure(scenario: Scenario, quick: bool = False, modes: Sequence[str] = ADAM_MODES) -> Outcome:
    """Trains in all modes alternately.

    Args:
        scenario: what and where.
        quick: small layers and few steps.
        modes: which of `ADAM_MODES`; figures that need others are left out.

    Raises:
        RuntimeError: graph_opt has not fused all updates, so that there is nothing to measure.
    """
    memory = MemoryCopy()
    bytes_per_s: List[float] = []
    rows = rows_per_step(scenario.model(quick))

    def before_turn(_: str, round_: int) -> None:
        if round_ == len(bytes_per_s):
            bytes_per_s.append(memory.bytes_per_s())

    with _open_contenders(scenario, quick, modes) as contenders:
        turns = run_in_timed_turns(contenders, QUICK if quick else FULL, before_turn)
    return outcome_of(scenario, turns, Traffic(rows, scenario.tables, bytes_per_s))


@contextlib.contextmanager
def _open_contenders(
    scenario: Scenario, quick: bool, modes: Sequence[str]
) -> Iterator[List[Contender]]:
    setting = Setting(
        scenario.model(quick), LEARNING, servers=scenario.servers, delay_ms=scenario.delay_ms or 0.0
    )
    with contextlib.ExitStack() as stack:
        contenders = []
        for mode in modes:
            cluster = stack.enter_context(start_cluster(setting.servers, setting.delay_ms))
            training = training_graph(setting.workload, setting.learning, cluster)
            contenders.append(stack.enter_context(open_trainer(setting, mode, training, cluster)))
            if mode != STOCK:
                _require_fused_updates(training.graph, scenario.tables.number)
        yield contenders


def _require_fused_updates(graph: tf.Graph, tables: int) -> None:
    report = graph_opt.report(graph)
    assert report is not None
    fused = sum(lookup.update in ("fused", "deferred") for lookup in report.fused_lookups)
    if fused != tables:
        raise RuntimeError("{} of {} updates are fused:\n{}".format(fused, tables, report))


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Measures the scenario that the flags describe and writes its outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=(DLRM, WIDE), required=True)
    parser.add_argument("--rows", type=positive, required=True, help="of each table")
    parser.add_argument("--delay-ms", type=milliseconds, help="to a parameter server; none: local")
    parser.add_argument("--modes", nargs="+", choices=ADAM_MODES, default=ADAM_MODES)
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    options = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)  # every TF1 name is deprecated: that is known here
    tf.disable_v2_behavior()
    scenario = scenario_of(options.workload, options.rows, options.delay_ms)
    outcome = measure(scenario, options.quick, options.modes)
    options.output.write_text(json.dumps(outcome.to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main()
