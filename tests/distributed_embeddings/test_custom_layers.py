"""Layers of a script's own among those of a `DistributedEmbedding`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import distributed_embeddings as de
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import communicating_through
from tests.distributed_embeddings.layer_ranks import share
from tests.quick_cases import one_of_each, slow_but


class Sum(tf.keras.layers.Layer):
    """A layer of a script's own."""

    def __init__(self, input_dim: int, output_dim: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.input_dim, self.output_dim = input_dim, output_dim

    def build(self, input_shape: Any) -> None:
        shape = (self.input_dim, self.output_dim)
        self.table = self.add_weight("table", shape, tf.float32, rising, use_resource=True)

    def call(self, ids: Any) -> Any:
        return tf.reduce_sum(tf.gather(self.table, ids), axis=1)

    def get_config(self) -> Dict[str, Any]:
        return dict(super().get_config(), input_dim=self.input_dim, output_dim=self.output_dim)


def rising(shape: Any, dtype: Any = None, **_: Any) -> Any:
    return tf.tile(tf.cast(tf.range(shape[0]), dtype)[:, tf.newaxis], [1, shape[1]])


@pytest.mark.parametrize("arguments", slow_but([{}, dict(dp_input=False)], dict(dp_input=False)))
def test_custom_layers_are_called_where_they_are(arguments: Dict[str, Any]) -> None:
    ids = np.arange(24).reshape(8, 3) % 7

    def on_rank(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layers = [Sum(7, 4, name="sum"), de.Embedding(9, 2, combiner="sum", name="rows")]
            layer = de.DistributedEmbedding(
                layers, input_table_map=[0, 1, 0], name="layer", **arguments
            )
            mine = [0, 1, 2] if layer.dp_input else layer.strategy.input_ids_list[transport.rank]
            given = share(ids, transport.rank, transport.size, True) if layer.dp_input else ids
            outputs = layer([tf.constant(given) for _ in mine])
            assert [one.shape.as_list()[1:] for one in outputs] == [[4], [2], [4]]
            variables = layer.trainable_weights
            slices = tf.gradients(tf.reduce_sum(outputs[0]), variables)
            custom = [
                tf.math.unsorted_segment_sum(one.values, one.indices, 7)
                for one, variable in zip(slices, variables)
                if "table" in variable.name
            ]
            others = [one for one in slices if one is not None]
            session.run(tf.global_variables_initializer())
            assert others  # all ranks send gradients
            values, gradients, _ = session.run((outputs, custom, others))
            assert all(one.de_local for one in variables)
            return values[0], values[2], gradients

    for ranks in (1, 2, 4):
        results = run_ranks(ranks, on_rank)
        expected = np.tile(ids.sum(axis=1)[:, np.newaxis], [1, 4])
        for number in range(2):
            ours = np.concatenate([result[number] for result in results])
            np.testing.assert_array_equal(ours, expected)
        columns = [one for result in results for one in result[2]]
        counts = np.bincount(ids.reshape(-1), minlength=7)
        np.testing.assert_array_equal(
            np.concatenate(columns, axis=1), np.tile(counts[:, np.newaxis], [1, 4])
        )


class Thirds(Sum):
    """Sums that float32 cannot hold."""

    def call(self, ids: Any) -> Any:
        return tf.cast(super().call(ids), tf.float64) / 3


def test_custom_layers_keep_their_dtypes() -> None:
    def on_rank(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layers = [Sum(7, 2, name="sum"), Thirds(7, 2, name="thirds")]
            outputs = de.DistributedEmbedding(layers)([tf.constant([[1]]), tf.constant([[1]])])
            session.run(tf.global_variables_initializer())
            return session.run(outputs)

    for sums, thirds in run_ranks(2, on_rank):
        assert (sums.dtype, thirds.dtype) == (np.float32, np.float64)
        np.testing.assert_array_equal(thirds, [[1 / 3] * 2])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_of_a_ranks_own_inputs_have_the_dtype_of_their_tables(
    dtype: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def on_rank(transport: Transport) -> Any:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            layers = [Sum(7, 2, name="sum"), Thirds(7, 2, name="thirds", dtype=dtype)]
            layer = de.DistributedEmbedding(layers, name="layer", dp_input=False)
            mine = layer.strategy.input_ids_list[transport.rank]
            outputs = layer([tf.constant([[1]] * transport.size) for _ in mine])
            session.run(tf.global_variables_initializer())
            return session.run(outputs)

    for sums, thirds in run_ranks(2, on_rank):
        assert (sums.dtype, thirds.dtype) == (np.float32, np.dtype(dtype))
        np.testing.assert_array_equal(thirds, np.full([1, 2], 1 / 3, dtype))
    said = "of layer 'layer' is float64, and arrives as float32, the dtype of its table"
    assert (said in capfd.readouterr().err) == (dtype == "float32")


@pytest.mark.parametrize(
    "arguments, eager",
    one_of_each(
        [dict(column_slice_threshold=14), dict(dp_input=False), dict(replicated=True)],
        [True, False],
    ),
)
def test_whole_tables_of_custom_layers_are_set_and_got(
    arguments: Dict[str, Any], eager: bool, tmp_path: Path
) -> None:
    whole = [np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) for rows in (7, 9, 5)]
    np.save(str(tmp_path / "sum.npy"), whole[0])
    ids = np.arange(24).reshape(8, 3) % 5
    scope = context.eager_mode if eager else lambda: tf.Graph().as_default()
    given = dict(arguments)
    if given.pop("replicated", False):
        given["data_parallel_threshold"] = 1000

    def on_rank(transport: Transport) -> Any:
        with communicating_through(transport), scope():
            layers = [Sum(7, 4, name="sum"), de.Embedding(9, 4, combiner="sum"), Sum(5, 4)]
            layer = de.DistributedEmbedding(layers, name="layer", **given)
            with pytest.raises(ValueError, match="'layer' is not built"):
                layer.placed_tables()
            mine = range(3) if layer.dp_input else layer.strategy.input_ids_list[transport.rank]
            inputs = [tf.constant(ids) for _ in mine]
            outputs = layer(inputs)
            weights = [str(tmp_path / "sum.npy"), *whole[1:]]
            if eager:
                layer.set_weights(weights)
                return layer.get_weights(all_ranks=True), [one.numpy() for one in layer(inputs)]
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(layer.assign_ops(weights))
                first = layer.get_weights(all_ranks=True, session=session)
                layer.set_weights(weights, session=session)
                for one, other in zip(first, layer.get_weights(all_ranks=True, session=session)):
                    np.testing.assert_array_equal(one, other)
                return first, session.run(outputs)

    for ranks in (1, 2):
        for rank, (found, pooled) in enumerate(run_ranks(ranks, on_rank)):
            samples = slice(None)
            if "dp_input" in given:
                samples = slice(rank * 8 // ranks, (rank + 1) * 8 // ranks)
            for place, table in enumerate(whole):
                np.testing.assert_array_equal(found[place], table)
                np.testing.assert_array_equal(pooled[place], table[ids].sum(1)[samples])


class TwoTables(Sum):
    """A layer of which one cannot tell which weight is its table."""

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        self.add_weight("other", (self.input_dim, self.output_dim), tf.float32, use_resource=True)


def test_a_rank_that_cannot_tell_a_table_says_so_on_all() -> None:
    def on_rank(transport: Transport) -> str:
        with communicating_through(transport), context.eager_mode():
            layer = de.DistributedEmbedding([Sum(7, 4), TwoTables(7, 4, name="two")])
            layer([tf.constant([[1]])] * 2)
            errors = []
            for call in (layer.get_weights, lambda: layer.set_weights([np.zeros([7, 4])] * 2)):
                with pytest.raises((ValueError, RuntimeError)) as caught:
                    call()
                errors.append(str(caught.value))
            assert errors[0] == errors[1]
            return errors[0]

    told = "'two', a TwoTables, has 2 weights of shape [7, 4] and dtype float32; need one"
    others, owner = run_ranks(2, on_rank)
    assert told in owner and "rank 1 failed: ValueError" in others and told in others
