"""Random groups compared with `tf.nn.safe_embedding_lookup_sparse`: values and gradients."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Tuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from tests.embedding.lookup_groups import in_session, random_bags, table
from tests.example_share import example_share

COMBINERS = ("sum", "mean", "sqrtn")
KINDS = ("sparse", "shuffled", "cube", "ragged", "dense")
ROWS = 11  # of the smallest table


class Choice(NamedTuple):
    """One lookup of a group."""

    table: int
    kind: str
    combiner: str
    weighted: bool
    dtype: Any
    default_id: int  # -1: zeros


CHOICES = st.builds(
    Choice,
    table=st.integers(0, 2),
    kind=st.sampled_from(KINDS),
    combiner=st.sampled_from(COMBINERS),
    weighted=st.booleans(),
    dtype=st.sampled_from([tf.int32, tf.int64]),
    default_id=st.sampled_from([-1, -1, 3]),
)


class Bags:
    """The same ids, and weights if any, in every kind that a lookup accepts."""

    def __init__(self, random: np.random.RandomState, bags: int, weighted: bool) -> None:
        made = random_bags(random, bags, ROWS)
        flat = [(row, at) for row, ids in enumerate(made.ids) for at in range(len(ids))]
        self._indices = np.array(flat, np.int64).reshape(-1, 2)
        self._lengths = [len(ids) for ids in made.ids]
        self._shape = [bags, max([*self._lengths, 1])]
        self._order = random.permutation(len(flat))
        self._ids = np.array([i for row in made.ids for i in row], np.int64)
        values = tf.constant([w for row in made.weights for w in row], tf.float32, [len(flat)])
        self.weights = values if weighted else None

    def of(self, choice: Choice) -> Tuple[Any, Any]:
        """Ids and weights of a single kind."""
        make = getattr(self, "_" + choice.kind)
        ids = make(tf.constant(self._ids, choice.dtype), -1)
        return ids, None if self.weights is None else make(self.weights, 1)

    def _sparse(self, values: tf.Tensor, _: int) -> tf.SparseTensor:
        return tf.SparseTensor(self._indices, values, self._shape)

    def _shuffled(self, values: tf.Tensor, _: int) -> tf.SparseTensor:
        """Ids and weights that are not in row order."""
        indices = self._indices[self._order]
        return tf.SparseTensor(indices, tf.gather(values, self._order), self._shape)

    def _cube(self, values: tf.Tensor, _: int) -> tf.SparseTensor:
        """The same rows as pairs: half as many outer rows, of two each; their number is even."""
        rows, places = self._indices[:, 0], self._indices[:, 1]
        indices = np.stack([rows // 2, rows % 2, places], axis=1)
        return tf.SparseTensor(indices, values, [self._shape[0] // 2, 2, self._shape[1]])

    def _ragged(self, values: tf.Tensor, _: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_row_lengths(values, tf.constant(self._lengths, tf.int64))

    def _dense(self, values: tf.Tensor, filler: int) -> tf.Tensor:
        filled = tf.fill(self._shape, tf.cast(filler, values.dtype))
        return tf.tensor_scatter_nd_update(filled, self._indices, values)


def stock(params: Any, bags: Bags, choice: Choice, strategy: str) -> tf.Tensor:
    kind = choice.kind if choice.kind in ("cube", "shuffled") else "sparse"
    ids, weights = bags.of(choice._replace(kind=kind))
    return tf.nn.safe_embedding_lookup_sparse(
        params,
        ids,
        weights,
        choice.combiner,
        default_id=None if choice.default_id < 0 else choice.default_id,
        partition_strategy=strategy,
    )


def gradients_of(pooled: List[tf.Tensor], sources: List[Any], seed: int) -> List[Any]:
    """Gradients of a loss that do not depend on how the rows were rounded."""
    factors = [tf.random.stateless_uniform(tf.shape(rows), [seed, 0]) for rows in pooled]
    loss = tf.add_n([tf.reduce_sum(rows * factor) for rows, factor in zip(pooled, factors)])
    return list(tf.gradients(loss, sources))


def dense(gradient: Any) -> tf.Tensor:
    return tf.zeros([0]) if gradient is None else tf.convert_to_tensor(gradient)


def touched(gradient: Any) -> tf.Tensor:
    """The rows that an optimizer would touch."""
    return tf.zeros([0], tf.int64) if gradient is None else tf.sort(tf.unique(gradient.indices)[0])


def check(
    seed: int, choices: List[Choice], use_resource: bool, partitions: int, strategy: str
) -> None:
    random = np.random.RandomState(seed)
    with tf.Graph().as_default():
        widths = random.choice([1, 2, 5, 8, 16, 19, 40], 3)
        tables = [
            table("t{}".format(i), ROWS + 7 * i, width, use_resource, partitions)
            for i, width in enumerate(widths)
        ]
        bags = [Bags(random, 2 * random.randint(1, 5), choice.weighted) for choice in choices]
        params = [tables[choice.table] for choice in choices]
        requests = []
        for choice, param, bag in zip(choices, params, bags):
            ids, weights = bag.of(choice)
            default_id = None if choice.default_id < 0 else choice.default_id
            requests.append(LookupRequest(param, ids, choice.combiner, weights, default_id))
        grouped = lookup_group(requests, strategy)
        separate = [stock(*one, strategy) for one in zip(params, bags, choices)]
        parts = [part for one in tables for part in (list(one) if partitions > 1 else [one])]
        sources = parts + [bag.weights for bag in bags if bag.weights is not None]
        fetches = []
        for pooled in (grouped, separate):
            gradients = gradients_of(pooled, sources, seed)
            rows = [touched(gradient) for gradient in gradients[: len(parts)]]
            fetches.append([pooled, [dense(gradient) for gradient in gradients], rows])
        ours, theirs = in_session(fetches)
    for choice, got, expected in zip(choices, ours[0], theirs[0]):
        if choice.weighted:
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(got, expected)
    tables_parts = len(theirs[2])
    for i, (got, expected) in enumerate(zip(ours[1], theirs[1])):
        # The gradient of a mean with respect to a weight is a small difference of large numbers.
        atol = 1e-5 if i < tables_parts else 1e-3
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=atol)
    assert [list(one) for one in ours[2]] == [list(one) for one in theirs[2]]


ANY_GROUP = given(
    seed=st.integers(0, 10**6),
    choices=st.lists(CHOICES, min_size=1, max_size=5),
    use_resource=st.booleans(),
    partitions=st.integers(1, 3),
    strategy=st.sampled_from(["mod", "div"]),
)


# Tables of different widths, which TensorFlow's graph optimizer must not merge in the gradient op.
DIFFERENT_WIDTHS = [
    Choice(0, "sparse", "sum", True, tf.int32, -1),
    Choice(0, "sparse", "mean", True, tf.int32, -1),
    Choice(2, "sparse", "sum", False, tf.int32, -1),
    Choice(0, "sparse", "sum", False, tf.int32, -1),
    Choice(2, "ragged", "sum", True, tf.int32, -1),
]


@example_share(0.03)
@example(seed=0, choices=DIFFERENT_WIDTHS, use_resource=False, partitions=1, strategy="mod")
@ANY_GROUP
def test_a_group_equals_separate_lookups(
    seed: int, choices: List[Choice], use_resource: bool, partitions: int, strategy: str
) -> None:
    check(seed, choices, use_resource, partitions, strategy)


@pytest.mark.slow
@example_share(4)
@ANY_GROUP
def test_many_groups_equal_separate_lookups(
    seed: int, choices: List[Choice], use_resource: bool, partitions: int, strategy: str
) -> None:
    check(seed, choices, use_resource, partitions, strategy)
