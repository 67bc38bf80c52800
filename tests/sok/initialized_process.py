"""A program that initializes `sok` in several ways: what it changes is the process's own."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Type

import tensorflow as tf

import graph_opt


def main() -> None:
    """An assertion that fails ends the process."""
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
    assert tf.keras.optimizers.Adam is new
    assert "'single'" in error_of(lambda: sok.init("horovod"), RuntimeError)
    assert (sok.rank(), sok.num_ranks(), sok.local_rank(), sok.num_gpu_per_rank()) == (0, 1, 0, 1)

    sok.init("single")
    sok.init("single")
    legacy = tf.keras.optimizers.legacy.Adam
    assert tf.keras.optimizers.Adam is legacy and tf.optimizers.Adam is legacy
    assert tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    for make in (new, legacy):
        table = sok.Variable([[1.0, 2.0]], False, name="of_{}".format(make.__module__[-4:]))
        assert not table.trainable
        sok.OptimizerWrapper(make(0.1)).apply_gradients([(tf.ones([1, 2]), table)])
        assert float(table[0, 0]) < 1.0
    graph_opt.uninstall()
    assert tf.keras.optimizers.Adam is new and tf.optimizers.Adam is new
    print("done")


def error_of(call: Callable[[], object], kind: Type[Exception]) -> str:
    """The text of the error that a call ends with."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no {}".format(kind.__name__))


if __name__ == "__main__":
    main()
