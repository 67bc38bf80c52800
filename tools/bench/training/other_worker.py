"""A worker beside the one that measures: trains as many steps as it is told, when it is told.

    python -m tools.bench.training.other_worker --place '{"view": {...}, "task": 1}' \
      --scenario '{"workload": "wide", ...}' --mode both

It builds its graph, and opens its session when a line of its standard input comes. It prints
`ready` once the session is open, and again whenever it has trained as many steps as a further line
said. It ends when its standard input is closed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster, Place
from tools.bench.cluster.processes import ChildProcess
from tools.bench.training.contenders import Setting, open_trainer
from tools.bench.training.contests import Scenario
from tools.bench.workloads.workload import training_graph

_MODULE = "tools.bench.training.other_worker"


def start_other_worker(place: Place, scenario: Scenario, mode: str, quick: bool) -> ChildProcess:
    """Starts one, which builds its graph meanwhile.

    Returns:
      The process, for `open_its_session` once the chief has opened its own.
    """
    arguments = ["--place", json.dumps(place._asdict()), "--mode", mode]
    arguments += ["--scenario", json.dumps(scenario._asdict())]
    if quick:
        arguments.append("--quick")
    return ChildProcess("worker {} ({})".format(place.task, mode), _MODULE, arguments)


def open_its_session(other: ChildProcess) -> None:
    """Lets a worker open its session, whose variables the chief has initialized.

    A session that comes before looks for these only every 30 seconds.

    Raises:
      tools.bench.cluster.processes.ProcessEnded: the worker has ended.
    """
    other.tell("")
    other.ready_line()


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Trains until standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--place", type=json.loads, required=True, help="a Place, as JSON")
    parser.add_argument("--scenario", type=json.loads, required=True, help="a Scenario, as JSON")
    parser.add_argument("--mode", required=True, help="one of sessions.SERVER_MODES")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    options = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)  # every TF1 name is deprecated: that is known here
    tf.disable_v2_behavior()
    setting = Scenario(**options.scenario).setting(options.quick)
    _train(setting, options.mode, Place(**options.place))
    # TensorFlow's gRPC server has no clean shutdown: leaving through the interpreter would wait
    # for its threads.
    sys.stdout.flush()
    os._exit(0)


def _train(setting: Setting, mode: str, place: Place) -> None:
    cluster = Cluster(place.start_server().target, place=place)
    training = training_graph(setting.workload, setting.learning, cluster)
    sys.stdin.readline()
    with open_trainer(setting, mode, training, cluster) as trainer:
        print("ready", flush=True)
        for line in sys.stdin:
            trainer.run(int(line))
            print("ready", flush=True)


if __name__ == "__main__":
    sys.exit(main())
