"""Calls and bytes that a step of a worker costs, in each mode of a contest.

    python -m tools.bench.training.traffic --contest cluster --workload dlrm --servers 2 \
      --output FILE

A proxy without a delay counts all that passes between the tasks, in both directions: whatever runs
ahead of a step is part of some step. How far away servers are changes nothing about it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.argument_types import positive
from tools.bench.cluster.loopback import Cluster, start_cluster
from tools.bench.records import Outcome, Record
from tools.bench.training.contenders import Setting, open_trainer
from tools.bench.training.contests import CONTESTS, Scenario
from tools.bench.training.settings import setting_of
from tools.bench.workloads.measured import WORKLOADS
from tools.bench.workloads.workload import training_graph

_WARM_UP = 10
_STEPS = 100  # The few batches that are ahead at their end were ahead at their start, too.
_QUICK_STEPS = 4


def traffic_of(mode: str, setting: Setting, steps: int) -> Tuple[float, float]:
    """Calls and bytes of a step, on average."""
    with start_cluster(setting.servers, counts=True) as cluster:
        training = training_graph(setting.workload, setting.learning, cluster)
        with open_trainer(setting, mode, training, cluster) as trainer:
            trainer.run(_WARM_UP)
            before = _so_far(cluster)
            trainer.run(steps)
            after = _so_far(cluster)
    calls, size = ((late - early) / steps for early, late in zip(before, after))
    return calls, size


def _so_far(cluster: Cluster) -> List[int]:
    (proxy,) = cluster.proxies
    proxy.tell("")
    return [int(number) for number in proxy.ready_line().split()]


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Counts, and writes the outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contest", choices=sorted(CONTESTS), required=True)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--servers", type=positive, default=1)
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    options = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)  # every TF1 name is deprecated: that is known here
    tf.disable_v2_behavior()
    scenario = Scenario(options.workload, 0.0, workers=options.servers)
    setting = setting_of(scenario, options.quick)
    records: List[Record] = []
    for mode in CONTESTS[options.contest].modes:
        found = traffic_of(mode, setting, _QUICK_STEPS if options.quick else _STEPS)
        params = {"batch": scenario.batch, "servers": options.servers}
        for figure, unit, value in zip(("calls_per_step", "bytes_per_step"), ("", "B"), found):
            records.append(Record(figure, scenario.workload, mode, params, value, unit))
    outcome = Outcome(tuple(records))
    options.output.write_text(json.dumps(outcome.to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main()
