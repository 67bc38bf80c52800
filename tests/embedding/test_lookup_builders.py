"""Group lookups in models whose tables are on parameter servers in separate processes."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Set

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from graph_opt.embedding.lookup_builders import OneDevice, builder_of
from graph_opt.session.graph_records import report_of
from graph_opt.session.session import Session
from tests.passes import fused_models as models
from tests.session.parameter_servers import free_addresses, parameter_servers


@pytest.fixture(scope="module", params=[True, False], ids=["with_ops", "without_ops"])
def cluster(request: Any) -> Iterator[Any]:
    """A worker with two parameter servers, and whether these have graph_opt's ops."""
    *ps, address = free_addresses(3)
    addresses = {"ps": ps, "worker": [address]}
    with parameter_servers(addresses, has_ops=[request.param] * 2):
        worker = tf.train.Server(tf.train.ClusterSpec(addresses), job_name="worker", task_index=0)
        yield worker.target, request.param


def legacy_lookups(inputs: Dict[str, Any]) -> List[Any]:
    """All kinds of ids, for whole tables and a partitioned one."""
    sparse = tf.sparse.from_dense(inputs["ids"])
    weights = models.weights_of(sparse, inputs["weight"])
    ragged = tf.RaggedTensor.from_tensor(inputs["more"])
    tables = [models.table("whole"), models.table("parts", 6, resource=True, shards=3)]
    requests = [
        LookupRequest(tables[0], sparse, "mean", weights, 3),
        LookupRequest(tables[1], ragged, "sum"),
        LookupRequest(tables[0], inputs["one"], "sqrtn"),
        LookupRequest(tables[1], inputs["more"], "mean"),
    ]
    return lookup_group(requests, "div")


class Ran(NamedTuple):
    """The losses of a training run, and the report on its graph."""

    losses: List[float]
    report: Any


def train(target: str = "", config: Any = None) -> Ran:
    setter = tf.train.replica_device_setter(2, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter if target else None):
        tf.set_random_seed(1)
        inputs = models.batches()
        loss = models.loss_of(legacy_lookups(inputs), inputs)
        step = tf.train.AdagradOptimizer(0.1).minimize(loss)
        initialize = tf.global_variables_initializer()
        opened = tf.Session(target) if config is None else Session(target, config=config)
        with opened as session:
            session.run(initialize)
            losses = [float(session.run([loss, step])[0]) for _ in range(models.STEPS)]
        return Ran(losses, report_of(graph))


def test_results_are_those_of_one_machine(cluster: Any) -> None:
    target, _ = cluster
    np.testing.assert_allclose(train(target).losses, train().losses, rtol=1e-5)


def test_the_pass_packs_them_where_servers_have_the_ops(cluster: Any) -> None:
    target, has_ops = cluster
    ran = train(target, models.config())
    np.testing.assert_allclose(ran.losses, train().losses, rtol=1e-5)
    codes = {refusal["code"] for one in ran.report.fused_lookups for refusal in one.refusals}
    assert len(ran.report.fused) == (4 if has_ops else 0)
    assert codes == (set() if has_ops else {"server_without_ops"})


def test_training_ends_at_once_where_the_ops_are_required(cluster: Any) -> None:
    target, has_ops = cluster
    config = models.config(require_server_ops=True)
    if has_ops:
        assert len(train(target, config).report.fused) == 4
        return
    with pytest.raises(tf.errors.FailedPreconditionError, match="task:0"):
        train(target, config)


@pytest.mark.parametrize(
    "table, ids, separate",
    [
        ({""}, "", False),
        ({""}, "/job:worker/task:1", False),
        ({"/job:localhost/device:CPU:0"}, "", False),
        ({"/job:worker/task:0/device:CPU:0"}, "/job:worker", False),
        ({"/job:worker/task:1"}, "/job:worker/task:0", True),
        ({"/job:ps/task:0"}, "/job:worker/task:0", True),
        ({"/job:ps/task:0"}, "", True),
        ({"/device:CPU:0", "/device:CPU:1"}, "/device:CPU:0", True),
    ],
)
def test_which_tables_are_looked_up_separately(table: Set[str], ids: str, separate: bool) -> None:
    assert (builder_of(table, ids) is not OneDevice) == separate
