"""A program that initializes `sok` in several ways: what it changes is the process's own."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Set, Type

import tensorflow as tf

import graph_opt
from tests.release_features import keras_optimizers


def main() -> None:
    """An assertion that fails ends the process."""
    tf.compat.v1.enable_eager_execution()
    sok = graph_opt.sok
    assert sok.tf_version == [int(part) for part in tf.__version__.split(".")[:3]]
    os.environ["HOROVOD_SIZE"] = "2"
    tables: List[Callable[..., Any]] = [
        lambda: sok.DynamicVariable(2, "3"),
        lambda: sok.Variable([[3.0, 3.0]]),
        lambda: sok.All2AllDenseEmbedding(8, 2, 1, 1).embedding_variable,
    ]
    for call in (sok.rank, sok.communication.local_rank, *tables):
        assert "sok.init()" in error_of(call, RuntimeError)
    del os.environ["HOROVOD_SIZE"]
    for make in tables:
        table = make()
        assert sok.all2all_dense_embedding(table, [0]).shape == (1, 2)
        assert table.num_gpus == sok.num_ranks() == 1
    assert "'horovod' or 'single'" in error_of(lambda: sok.init("nccl"), ValueError)

    new = tf.keras.optimizers.Adam
    sok.communication.set_comm_tool("single")
    sok.Init(global_batch_size=8)
    sok.init("single", use_legacy_optimizer=False)
    assert adam_of_each_name() == {new}
    assert "'single'" in error_of(lambda: sok.init("horovod"), RuntimeError)
    assert (sok.rank(), sok.num_ranks(), sok.local_rank(), sok.num_gpu_per_rank()) == (0, 1, 0, 1)

    sok.init("single")
    sok.init("single")
    legacy = keras_optimizers().Adam
    assert adam_of_each_name() == {legacy}
    assert tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    for make in (new, legacy):
        table = sok.Variable([[1.0, 2.0]], False, name="of_{}".format(make.__module__[-4:]))
        assert not table.trainable
        sok.OptimizerWrapper(make(0.1)).apply_gradients([(tf.ones([1, 2]), table)])
        assert float(table[0, 0]) < 1.0
    graph_opt.uninstall()
    assert adam_of_each_name() == {new}
    print("done")


def adam_of_each_name() -> Set[Any]:
    """The classes that scripts get; TensorFlow 1 has no `tf.optimizers`."""
    modules = [tf.keras.optimizers, getattr(tf, "optimizers", tf.keras.optimizers)]
    return {module.Adam for module in modules}


def error_of(call: Callable[[], object], kind: Type[Exception]) -> str:
    """The text of the error that a call ends with."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no {}".format(kind.__name__))


if __name__ == "__main__":
    main()
