"""Random models train the same with and without fusion."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from tests.example_share import example_share
from tests.optimizer_models import ROW_BY_ROW
from tests.passes import fused_models as models

TOLERANCE = 2e-5


class Choice(NamedTuple):
    """One lookup of a random model."""

    api: str
    table: int
    combiner: str
    feature: str
    weighted: bool
    default_id: int
    joined: bool
    unread: bool


class Model(NamedTuple):
    """A random model and how it is trained."""

    lookups: List[Choice]
    resource: List[bool]
    shards: List[int]
    strategy: str
    optimizer: str
    clipped: bool


CHOICES = st.builds(
    Choice,
    api=st.sampled_from(["safe", "sparse", "rows"]),
    table=st.integers(0, 2),
    combiner=st.sampled_from(["sum", "mean", "sqrtn"]),
    feature=st.sampled_from(["ids", "more"]),
    weighted=st.booleans(),
    default_id=st.sampled_from([-1, -1, 3]),
    joined=st.booleans(),
    unread=st.sampled_from([False, False, False, True]),
)
MODELS = st.builds(
    Model,
    lookups=st.lists(CHOICES, min_size=1, max_size=5),
    resource=st.lists(st.booleans(), min_size=3, max_size=3),
    shards=st.lists(st.sampled_from([1, 1, 3]), min_size=3, max_size=3),
    strategy=st.sampled_from(["mod", "div"]),
    optimizer=st.sampled_from(ROW_BY_ROW),
    clipped=st.booleans(),
)


def lookups_of(model: Model, inputs: Dict[str, Any]) -> List[Any]:
    tables = [
        models.table("t{}".format(i), 3 + i, model.resource[i], model.shards[i]) for i in range(3)
    ]
    how = {"partition_strategy": model.strategy}
    alone: List[Any] = []
    joined: List[Any] = []
    for choice in model.lookups:
        table = tables[choice.table]
        shifted = inputs[choice.feature] if choice.api == "safe" else inputs["more"]
        sparse = tf.sparse.from_dense(shifted + (choice.api == "sparse"))
        if choice.api == "sparse":  # every row has ids, none is negative
            sparse = tf.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
        weights = models.weights_of(sparse, tf.abs(inputs["weight"]) + 0.1)
        weights = weights if choice.weighted else None
        if choice.api == "safe":
            default_id = None if choice.default_id < 0 else choice.default_id
            pooled = tf.nn.safe_embedding_lookup_sparse(
                table, sparse, weights, choice.combiner, default_id, **how
            )
        elif choice.api == "sparse":
            pooled = tf.nn.embedding_lookup_sparse(
                table, sparse, weights, combiner=choice.combiner, **how
            )
        else:
            pooled = tf.nn.embedding_lookup(table, inputs["one"], **how)
        if not choice.unread:
            (joined if choice.joined else alone).append(pooled)
    outputs = [tf.tanh(pooled) for pooled in alone]
    return outputs + ([tf.concat(joined, axis=1)] if joined else [])


def clip(optimizer: Any, loss: Any) -> Any:
    pairs = optimizer.compute_gradients(loss)
    gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.1)
    return optimizer.apply_gradients(zip(gradients, [variable for _, variable in pairs]))


def check_training(model: Model, steps: int = 3) -> None:
    minimize = clip if model.clipped else None

    def lookups(inputs: Dict[str, Any]) -> List[Any]:
        return lookups_of(model, inputs)

    fused = models.train(lookups, model.optimizer, models.config(), minimize, steps)
    stock = models.train(lookups, model.optimizer, None, minimize, steps)
    losses, values = models.difference(fused, stock)
    assert losses < TOLERANCE and values < TOLERANCE
    assert fused.report is not None
    read = sum(not choice.unread for choice in model.lookups)
    assert bool(read) == bool(fused.report.fused) and len(fused.report.fused) <= read


@example_share(0.05)
@given(MODELS)
def test_random_models_train_the_same(model: Model) -> None:
    check_training(model)


@pytest.mark.slow
@example_share(0.03)
@given(MODELS)
def test_random_models_train_the_same_with_adam(model: Model) -> None:
    """Rows that no batch looks up move, too, and so does row 0 of bags without ids."""
    check_training(model._replace(optimizer="adam"), steps=6)


@pytest.mark.slow
@given(MODELS)
def test_many_random_models_train_the_same(model: Model) -> None:
    check_training(model)


@pytest.mark.slow
@example_share(0.6)
@given(MODELS)
def test_many_random_models_train_the_same_with_adam(model: Model) -> None:
    check_training(model._replace(optimizer="adam"), steps=10)
