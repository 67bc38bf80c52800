"""Gradients of all ranks, and values of one, with sharded tables and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

from graph_opt import distributed_embeddings as de
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sharding.transport_in_use import communicating_through
from tests.distributed_embeddings import data_parallel_models as models
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.quick_cases import slow_but


@pytest.mark.parametrize(
    "how, optimizer",
    slow_but(
        [
            ("session", "momentum"),
            ("session", "adagrad"),
            ("tape", "keras_adam"),
            ("function", "keras_adam"),
            ("function", "legacy_adagrad"),
            ("minimize", "keras_adam"),
            ("minimize", "legacy_adagrad"),
        ],
        ("session", "adagrad"),
        ("tape", "keras_adam"),
        ("minimize", "keras_adam"),
    ),
)
def test_ranks_train_as_one_process_on_the_whole_batch(how: str, optimizer: str) -> None:
    ranks = run_ranks(2, lambda transport: models.train(transport, how, optimizer))
    models.assert_as_one_process(ranks, models.train(OneRank(), how, optimizer))


def test_gradients_may_be_sums_and_none_and_alone() -> None:
    def work(transport: Transport) -> List[Any]:
        with communicating_through(transport), context.eager_mode():
            used, unused, whole = (tf.Variable([1.0, 2.0]) for _ in range(3))
            with tf.GradientTape(persistent=True) as tape:
                loss = tf.reduce_sum(used * (transport.rank + 1.0))
            tape = de.DistributedGradientTape(tape, op="sum")
            first = tape.gradient(loss, [used, unused], use_generic_names=True)
            del whole
            alone = tape.gradient(loss, used).numpy().tolist()
            nested = tape.gradient(loss, {"layers": [[used], [unused]]})["layers"]
            assert nested[0][0].numpy().tolist() == alone and nested[1][0] is None
            return [first[0].numpy().tolist(), first[1], alone]

    assert run_ranks(2, work) == [[[3.0, 3.0], None, [3.0, 3.0]]] * 2


def test_keras_saves_the_class_of_the_optimizer() -> None:
    def work(transport: Transport) -> Any:
        with communicating_through(transport), context.eager_mode():
            given = tensorflow.keras.optimizers.Adam(0.5, name="mine")
            wrapped = de.DistributedOptimizer(given)
            config = tf.keras.optimizers.serialize(wrapped)
            return config["class_name"], config["config"]["name"], isinstance(wrapped, type(given))

    assert run_ranks(2, work) == [("Adam", "mine", True)] * 2


def test_what_only_horovod_has_is_an_error_and_one_rank_needs_nothing() -> None:
    def work(transport: Transport) -> None:
        with communicating_through(transport):
            optimizer = tf.train.AdagradOptimizer(0.1)
            with pytest.raises(ValueError, match="only Horovod has backward_passes_per_step"):
                de.DistributedOptimizer(optimizer, backward_passes_per_step=2)
            with pytest.raises(ValueError, match="choose 'average' or 'sum'"):
                de.DistributedOptimizer(optimizer, op="max")
            with pytest.raises(ValueError, match="no rank 2 among 2"):
                de.broadcast_variables([], root_rank=2)

    run_ranks(2, work)
    with communicating_through(OneRank()):
        optimizer = tf.train.AdagradOptimizer(0.1)
        assert de.DistributedOptimizer(optimizer, sparse_as_dense=True) is optimizer
        tape = tf.GradientTape()
        assert de.DistributedGradientTape(tape) is tape


def test_values_of_one_rank_reach_all_but_tables_and_what_is_local() -> None:
    def eagerly(transport: Transport) -> Any:
        with communicating_through(transport), context.eager_mode():
            shared = tf.Variable([transport.rank + 1.0])
            local = tf.Variable([transport.rank + 1.0])
            local.de_local = True
            table = sok.Variable(np.arange(4, dtype=np.float32).reshape(4, 1), name="table")
            assert de.broadcast_variables([shared, local, table], root_rank=1) is None
            return [one.numpy().ravel().tolist() for one in (shared, local, table)]

    assert run_ranks(2, eagerly) == [[[2.0], [1.0], [0.0, 2.0]], [[2.0], [2.0], [1.0, 3.0]]]


def test_a_hook_starts_sessions_with_the_values_of_one_rank() -> None:
    def work(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default():
            shared = tf.get_variable("shared", initializer=[transport.rank + 1.0])
            table = sok.Variable(np.arange(4, dtype=np.float32).reshape(4, 1), name="table")
            step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
            pooled = sok.lookup_sparse(table, tf.constant([[3]]), combiners="sum")
            hooks = [de.BroadcastGlobalVariablesHook(0)]
            with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
                values = session.run([shared, pooled, step])
            return values[0].tolist(), values[1].tolist()

    assert run_ranks(2, work) == [([1.0], [[3.0]])] * 2


def test_a_callback_starts_models_and_optimizers_with_the_values_of_one_rank() -> None:
    def work(transport: Transport) -> Any:
        with communicating_through(transport), context.eager_mode():
            layer = tf.keras.layers.Dense(1)
            model = tf.keras.Sequential([layer])
            model.build([None, 2])
            layer.kernel.assign(tf.fill([2, 1], transport.rank + 1.0))
            model.optimizer = tensorflow.keras.optimizers.SGD(0.1, momentum=0.5)
            callback = de.BroadcastGlobalVariablesCallback(1)
            callback.set_model(model)
            callback.on_train_begin()
            first = layer.kernel.numpy().ravel().tolist()
            model.optimizer.build(model.trainable_variables)
            slot = next(one for one in model.optimizer.variables if one.shape == [2, 1])
            slot.assign(tf.fill([2, 1], transport.rank + 5.0))
            callback.on_train_batch_end(0)
            layer.kernel.assign(tf.fill([2, 1], transport.rank + 1.0))
            callback.on_train_batch_end(1)  # does nothing more
            values = layer.kernel.numpy().ravel().tolist()
            return first, slot.numpy().ravel().tolist(), values

    assert run_ranks(2, work) == [
        ([2.0, 2.0], [6.0, 6.0], [1.0, 1.0]),
        ([2.0, 2.0], [6.0, 6.0], [2.0, 2.0]),
    ]


@pytest.mark.slow
@NEEDS_HOROVOD
def test_scripts_run_on_ranks_of_horovod_as_in_one_process(tmp_path: Path) -> None:
    check_all_done(2, "tests.distributed_embeddings.data_parallel_ranks", str(tmp_path))
