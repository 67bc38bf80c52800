"""Tables whose rows are numbers, as biases are, or have several dimensions."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.passes import fused_models as models
from tests.quick_cases import one_of_each


def variable(name: str, row: Tuple[int, ...], resource: bool, shards: int = 1) -> Any:
    return tf.get_variable(
        name,
        [models.VOCABULARY, *row],
        initializer=tf.random_uniform_initializer(-1, 1, seed=len(row)),
        use_resource=resource,
        partitioner=tf.fixed_size_partitioner(shards) if shards > 1 else None,
    )


def biases_and_heads(resource: bool, shards: int) -> Callable[[Dict[str, Any]], List[Any]]:
    """Biases of one and several ids, two heads for each id, and rows of the usual shape."""

    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        bias = variable("bias", (), resource, shards)
        heads = variable("heads", (2, 3), resource)
        rows = variable("rows", (4,), resource)
        one, several = inputs["one"], inputs["more"]
        return [
            tf.nn.embedding_lookup(bias, one)[:, None],
            tf.nn.embedding_lookup(bias, several),
            tf.reshape(tf.nn.embedding_lookup(heads, one), [-1, 6]),
            tf.reduce_sum(tf.gather(heads, several), [1, 2]),
            tf.nn.embedding_lookup(rows, one),
        ]

    return lookups


@pytest.mark.parametrize("resource, shards", one_of_each([False, True], [1, 2]))
def test_train_as_tensorflows_own(resource: bool, shards: int) -> None:
    lookups = biases_and_heads(resource, shards)
    stock = models.train(lookups)
    fused = models.train(lookups, options=models.config())
    assert max(models.difference(fused, stock)) < 1e-5
    assert len(fused.report.fused) == 5
    updates = {lookup.tables: lookup.update for lookup in fused.report.fused_lookups}
    assert set(updates.values()) == {"fused"}, updates


def test_clipped_gradients_update_them_too() -> None:
    def clipped(optimizer: Any, loss: Any) -> Any:
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        return optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 0.1)[0], variables))

    stock = models.train(biases_and_heads(False, 1), minimize=clipped)
    fused = models.train(biases_and_heads(False, 1), minimize=clipped, options=models.config())
    assert max(models.difference(fused, stock)) < 1e-5
    assert {lookup.update for lookup in fused.report.fused_lookups} == {"fused"}


def test_run_ahead() -> None:
    stock = models.train(biases_and_heads(False, 1), steps=1)
    ahead = models.train(biases_and_heads(False, 1), options=models.config(prefetch=True), steps=0)
    assert stock.losses and len(ahead.report.moved) == len(ahead.report.lookups)


def test_combined_rows_must_be_rows() -> None:
    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        ids = tf.sparse.from_dense(inputs["more"] + 1)
        ids = tf.SparseTensor(ids.indices, ids.values - 1, ids.dense_shape)
        bias = variable("bias", (), True)
        return [tf.nn.embedding_lookup_sparse(bias, ids, None, combiner="sum")[:, None]]

    stock = models.train(lookups)
    left = models.train(lookups, options=models.config())
    np.testing.assert_allclose(left.losses, stock.losses, rtol=1e-6)
    assert [lookup.refusals[0]["code"] for lookup in left.report.fused_lookups] == [
        "table_not_supported"
    ]
