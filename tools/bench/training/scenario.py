"""One workload on one cluster: all modes of a contest, and the halves of one, in turns.

Scenarios that differ only in how far away servers are share their sessions.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
from concurrent import futures
from typing import Dict, Iterator, List, Sequence

from tools.bench.cluster.loopback import Cluster, start_clusters
from tools.bench.records import Outcome
from tools.bench.training.contenders import Contender, open_halves, open_trainer
from tools.bench.training.contests import Contest, Scenario
from tools.bench.training.exact_figures import conflicting_rows_share, exact_outcome
from tools.bench.training.figures import outcome_of
from tools.bench.training.other_worker import open_its_session, start_other_worker
from tools.bench.training.sessions import EXACT
from tools.bench.training.traffic import traffic_outcome
from tools.bench.turns import Schedule, run_in_turns
from tools.bench.workloads.graph_copies import GraphCopies
from tools.bench.workloads.workload import training_graph

# A turn takes a half to three seconds on two cores. What happens once in a training, such as
# compiling the first sample of staleness (step 64) or what a stage tries, is left to the warm-up:
# it takes as long as 20 steps, and so is nothing in a training and much of a turn.
SCHEDULES = {
    "dlrm": Schedule(steps=40, warm_up=66, settle=6),
    "wide": Schedule(steps=30, warm_up=66, settle=6),
}
# After the first delay: what waits ready was looked up with the one before.
_WARM_UP_OF_A_DELAY = 10
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
    setting = scenario.setting(quick)
    opened: Dict[str, Contender] = {}
    with contextlib.ExitStack() as stack:
        stack.callback(gc.unfreeze)
        clusters = stack.enter_context(
            start_clusters(len(contest.modes), setting.servers, setting.delay_ms, scenario.workers)
        )
        first = next(clusters)
        # The variables' devices are the same in all of them.
        copies = GraphCopies(training_graph(setting.workload, setting.learning, first))

        def open_mode(mode: str, cluster: Cluster) -> Contender:
            others = [
                stack.enter_context(
                    contextlib.closing(start_other_worker(place, scenario, mode, quick))
                )
                for place in cluster.others
            ]
            trainer = open_trainer(setting, mode, copies.copy(), cluster)
            chief = stack.enter_context(trainer)._replace(others=others)
            for other in others:
                open_its_session(other)
            chief.run(1)
            # Otherwise the collector would look through it while others open, and in their turns.
            gc.freeze()
            return chief

        # TensorFlow compiles the steps of one while Python prepares another.
        with futures.ThreadPoolExecutor(2) as pool:
            for chief in pool.map(open_mode, contest.modes, itertools.chain([first], clusters)):
                opened[chief.name] = chief
        if contest.cut is not None:
            chief = opened[contest.cut]
            assert chief.training is not None
            halves = open_halves(setting, chief.training, chief.cluster)
            opened.update(stack.enter_context(halves))
            gc.freeze()
        yield [opened[name] for name in contest.contestants]


def measure(contest: Contest, scenarios: Sequence[Scenario], quick: bool = False) -> Outcome:
    """Measures a group of scenarios (see `Contest.groups`); `quick` makes them tiny."""
    schedule = SCHEDULES[scenarios[0].workload]._replace(rounds=contest.rounds)
    if quick:
        schedule = QUICK_SCHEDULE
    outcome = Outcome(())
    with open_contestants(contest, scenarios[0], quick) as contestants:
        for scenario in scenarios:
            if scenario is not scenarios[0]:
                for contestant in contestants:
                    if contestant.name in contest.modes:  # halves share the cluster of one
                        contestant.cluster.set_delay(scenario.delay_ms or 0.0)
                schedule = schedule._replace(warm_up=min(schedule.warm_up, _WARM_UP_OF_A_DELAY))
            outcome += _measured(contest, scenario, contestants, schedule)
        if contest.counted and contestants[0].cluster.proxies:
            outcome += traffic_outcome(contest, scenarios[0], contestants, quick)
    return outcome


def _measured(
    contest: Contest, scenario: Scenario, contestants: Sequence[Contender], schedule: Schedule
) -> Outcome:
    turns = run_in_turns(contestants, schedule)
    outcome = outcome_of(contest, scenario, turns)
    if EXACT not in contest.modes:
        return outcome
    (exact,) = (contestant for contestant in contestants if contestant.name == EXACT)
    outcome += conflicting_rows_share(exact, scenario, schedule)
    return outcome + exact_outcome(scenario, turns)
