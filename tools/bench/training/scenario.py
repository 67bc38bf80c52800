"""One workload on one cluster: all modes of a contest and the halves of one, measured alternately.

    python -m tools.bench.training.scenario --contest train --workload dlrm --delay-ms 1 \
      --output FILE

Run as a process of its own, so that no scenario inherits the servers and threads of another.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.argument_types import positive
from tools.bench.cluster.loopback import start_cluster
from tools.bench.training.contenders import Contender, open_halves, open_trainer
from tools.bench.training.contests import CONTESTS, Contest, Scenario
from tools.bench.training.exact_figures import conflicting_rows_share, exact_outcome
from tools.bench.training.figures import outcome_of
from tools.bench.training.other_worker import start_other_worker
from tools.bench.training.sessions import EXACT
from tools.bench.training.settings import setting_of
from tools.bench.turns import Schedule, run_in_turns
from tools.bench.workloads.measured import WORKLOADS
from tools.bench.workloads.workload import training_graph

# A turn takes one to four seconds on two cores. What happens once in a training, such as compiling
# the first sample of staleness (step 64) or what a stage tries, is left to the warm-up: it takes as
# long as 20 steps, and so is nothing in a training and much of a turn.
SCHEDULES = {
    "dlrm": Schedule(steps=80, warm_up=100, settle=10),
    "wide": Schedule(steps=60, warm_up=100, settle=10),
}
QUICK_SCHEDULE = Schedule(rounds=2, steps=3, warm_up=2, settle=1)


@contextlib.contextmanager
def open_contestants(
    contest: Contest, scenario: Scenario, quick: bool = False
) -> Iterator[List[Contender]]:
    """Opens the contestants of a scenario, each mode with servers of its own.

    Args:
        contest: the modes.
        scenario: what and where.
        quick: tiny sizes.

    Yields:
        They, in the order of `contest.contestants`.

    Raises:
        tools.bench.cluster.processes.ProcessEnded: a parameter server could not be started.
    """
    setting = setting_of(scenario, quick)
    opened: Dict[str, Contender] = {}
    with contextlib.ExitStack() as stack:
        for mode in contest.modes:
            cluster = stack.enter_context(
                start_cluster(setting.servers, setting.delay_ms, scenario.workers)
            )
            training = training_graph(setting.workload, setting.learning, cluster)
            chief = stack.enter_context(open_trainer(setting, mode, training, cluster))
            others = [
                stack.enter_context(
                    contextlib.closing(start_other_worker(place, scenario, mode, quick))
                )
                for place in cluster.others
            ]
            opened[mode] = chief._replace(others=others)
            if mode == contest.cut:
                opened.update(stack.enter_context(open_halves(setting, training, cluster)))
        yield [opened[name] for name in contest.contestants]


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Measures the scenario that the flags describe and writes its outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contest", choices=sorted(CONTESTS), required=True)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--delay-ms", type=float, help="to a parameter server; none: local")
    parser.add_argument("--zipf", type=float, help="how uneven ids are (the workload's own)")
    parser.add_argument("--workers", type=positive, default=1, help="and as many servers")
    parser.add_argument("--rounds", type=positive, help="turns of each (the contest's number)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--output", type=Path, required=True, help="file to write")
    options = parser.parse_args(arguments)
    tf.logging.set_verbosity(tf.logging.ERROR)  # every TF1 name is deprecated: that is known here
    tf.disable_v2_behavior()
    contest = CONTESTS[options.contest]
    scenario = Scenario(
        options.workload, options.delay_ms, workers=options.workers, zipf=options.zipf
    )
    rounds = options.rounds or contest.rounds
    schedule = SCHEDULES[scenario.workload]._replace(rounds=rounds)
    if options.quick:
        schedule = QUICK_SCHEDULE
    with open_contestants(contest, scenario, options.quick) as contestants:
        turns = run_in_turns(contestants, schedule)
        shares = [
            conflicting_rows_share(contestant, scenario, schedule)
            for contestant in contestants
            if contestant.name == EXACT
        ]
    outcome = outcome_of(contest, scenario, turns)
    if EXACT in contest.modes:
        outcome = sum(shares, outcome + exact_outcome(scenario, turns))
    options.output.write_text(json.dumps(outcome.to_dict()), encoding="utf-8")


if __name__ == "__main__":
    main()
