"""A program for each rank of Horovod: whatever Horovod does with gradients, tables train alike.

Tables stay whole where Horovod does not gather the slices of all ranks, in each step.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, NamedTuple, Tuple

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from tests.passes.fusion.replicated_models import Minimize, Model, applying, require_equal
from tests.plain_sessions import plain_session

STEPS = 4


class Way(NamedTuple):
    """How gradients are reduced.

    Attributes:
      minimize: Builds the train op.
      said: In the report, why tables stay whole; empty if they are divided.
      elastic: Whether the launcher says that ranks come and go.
    """

    minimize: Minimize
    said: str = ""
    elastic: bool = False


def distributed(**options: Any) -> Minimize:
    def minimize(optimizer: Any, loss: tf.Tensor, tables: Any) -> tf.Operation:
        wrapped = horovod().DistributedOptimizer(optimizer, **options)
        return wrapped.minimize(loss, var_list=tables)

    return minimize


def local_table(optimizer: Any, loss: tf.Tensor, tables: Any) -> tf.Operation:
    """Each rank trains a table of its own."""
    wrapped = horovod().DistributedOptimizer(optimizer)
    wrapped.register_local_var(tables[0])
    return wrapped.minimize(loss, var_list=tables)


def reduced(**options: Any) -> Minimize:
    return applying(lambda gradients: [horovod().allreduce(one, **options) for one in gradients])


def ways() -> Dict[str, Way]:
    """By what a script says."""
    hvd = horovod()
    own = [hvd.add_process_set([rank]) for rank in range(hvd.size())][hvd.rank()]
    fp16 = hvd.Compression.fp16
    dense = {"sparse_as_dense": True}
    return {
        "compression": Way(distributed(compression=fp16)),
        "sum": Way(reduced(op=hvd.Sum)),
        "process set": Way(reduced(process_set=own), "among some of the ranks only"),
        "backward_passes_per_step": Way(
            distributed(backward_passes_per_step=2, **dense), "saw HorovodAllreduce"
        ),
        "Adasum": Way(distributed(op=hvd.Adasum, **dense), "gradient_not_gathered"),
        "local variable": Way(local_table, "gradient_not_gathered"),
        "elastic": Way(distributed(), "Horovod is elastic", elastic=True),
        "elastic, by allreduce": Way(reduced(), "Horovod is elastic", elastic=True),
    }


def main() -> None:
    """Runs as one of the ranks; an assertion that fails ends all."""
    tf.disable_control_flow_v2()
    hvd = horovod()
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    hvd.init()
    for name, way in ways().items():
        os.environ["HOROVOD_ELASTIC"] = str(int(way.elastic))
        expected, _ = trained(way.minimize, plain_session)
        found, report = trained(way.minimize, lambda: graph_opt.Session(config=dividing()))
        require_equal(found, expected)
        divided = sorted(one.name for one in report.sharded)
        wanted = [] if way.said else ["history", "items", "users"]
        if name == "local variable":
            wanted = ["history", "users"]
        assert divided == wanted, (name, str(report))
        assert way.said in str(report), (name, str(report))
    print("rank {} is done".format(hvd.rank()))


def trained(minimize: Minimize, open_session: Callable[[], Any]) -> Tuple[Any, Any]:
    """The tables after some steps, and what the session did."""
    with tf.Graph().as_default() as graph:
        model = Model("adagrad", minimize, use_resource=True)
        local = tf.local_variables_initializer()
        with open_session() as session:
            session.run(local)
            tables = model.trained(session, STEPS, horovod().rank())
        return [np.asarray(table) for table in tables], graph_opt.report(graph)


def dividing() -> Any:
    """A config that divides all tables."""
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.shard_tables = True
    config.graph_options.optimizer_options.shard_tables_options.min_table_bytes = 1
    return config


if __name__ == "__main__":
    main()
