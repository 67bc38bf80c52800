"""What `graph-opt plan` counts without running a graph, beside what a proxy counts as it runs."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graph_opt.cost.assumptions import Assumptions, NumberFor
from graph_opt.cost.cost_plan import cost_plan
from graph_opt.cost.planned_graph import planned_graph
from graph_opt.graph.view import GraphView
from graph_opt.reporting.cost import StepCost
from graph_opt.rules import find_lookups
from tools.bench.cluster.loopback import Cluster, Place
from tools.bench.training.contenders import Setting, open_alone
from tools.bench.training.contests import Scenario
from tools.bench.training.sessions import session_config
from tools.bench.training.traffic import traffic_of
from tools.bench.workloads.workload import training_graph

pytestmark = pytest.mark.slow

BATCH = 64
BATCHES = 20
STEPS = 40
NEAR = 0.2


@pytest.fixture(scope="module", params=["dlrm", "wide"])
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    scenario = Scenario(request.param, 0.0, workers=1, batch=BATCH)
    yield scenario.setting(quick=True)


@pytest.fixture(scope="module")
def told(setting: Setting) -> Assumptions:
    """What someone would say who knows the data: ids of a row, and how many are different."""
    rows: List[NumberFor] = []
    shares: List[NumberFor] = []
    for table, (ids, different) in _counted_ids(setting).items():
        name = re.compile("^{}$".format(re.escape(table)))
        rows.append(NumberFor(name, ids / (BATCH * BATCHES)))
        shares.append(NumberFor(name, different / ids))
    return Assumptions(BATCH, tuple(rows), tuple(shares))


def _counted_ids(setting: Setting) -> Dict[str, Tuple[int, int]]:
    with tf.Graph().as_default():
        training = training_graph(setting.workload, setting.learning, Cluster())
        graph = training.graph
        lookups = find_lookups(GraphView(graph.as_graph_def(add_shapes=True))).lookups
        tensors = {one.tables[0].name: graph.get_tensor_by_name(str(one.ids[0])) for one in lookups}
        counts = {table: (0, 0) for table in tensors}
        with graph.as_default(), tf.train.MonitoredTrainingSession() as session:
            for _ in range(BATCHES):
                for table, ids in session.run(tensors).items():
                    all_ids, different = counts[table]
                    counts[table] = all_ids + ids.size, different + np.unique(ids).size
    return counts


def _graph_on_a_server(setting: Setting) -> Any:
    place = Place({"ps": ["localhost:1"], "worker": ["localhost:2"]}, 0)
    training = training_graph(setting.workload, setting.learning, Cluster(place=place))
    return training.graph.as_graph_def(add_shapes=True)


@pytest.mark.parametrize("mode", ["stock", "async", "fused", "both"])
def test_calls_and_bytes_are_near_those_of_a_run(
    setting: Setting, told: Assumptions, mode: str
) -> None:
    plan = cost_plan(planned_graph(_graph_on_a_server(setting), session_config(mode)), told)
    cost: StepCost = plan.after or plan.before
    with open_alone(setting, mode, counts=True) as trainer:
        calls, size = traffic_of(trainer, STEPS)
    assert cost.calls == pytest.approx(calls, rel=NEAR)
    assert cost.bytes == pytest.approx(size, rel=NEAR)
