"""Tables that a deferred update trains, beside the same ones trained by TensorFlow's Adam."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.variables import parts_of
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from graph_opt.ops.deferred_rows import (
    group_embedding_catch_up,
    group_embedding_catch_up_all,
    row_state_name,
)
from graph_opt.ops.group_embedding import (
    GroupAttributes,
    GroupIds,
    group_embedding_apply,
    group_embedding_lookup,
)
from graph_opt.ops.optimizers import optimizer_specs
from tests.embedding.lookup_groups import table
from tests.ops.packed_groups import inputs_of

ROWS = 40
BAGS = 4
WIDTHS = (5, 16)
# Table 1 is looked up twice.
LOOKED_UP = (0, 1, 1)
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Case(NamedTuple):
    """What the lookups are like.

    Attributes:
      use_resource: Whether variables are resources.
      layout: sparse, ragged or dense.
      strategy: Of the partitioned table.
      safe: Whether ids < 0 are dropped.
    """

    use_resource: bool = True
    layout: str = "sparse"
    strategy: str = "mod"
    safe: bool = True


class Shards(NamedTuple):
    """The variables of a model: weights of all tables, then their slots."""

    weights: List[Any]
    m: List[Any]
    v: List[Any]

    def all(self) -> List[Any]:
        return [*self.weights, *self.m, *self.v]


def reference(part: Any) -> tf.Tensor:
    """What an op takes that writes to a variable."""
    return part.handle if hasattr(part, "handle") else part.op.outputs[0]


def state_of(part: Any) -> str:
    """The entry of row_states for a variable."""
    op = reference(part).op
    texts = [op.get_attr(name).decode() for name in ("shared_name", "container")]
    return row_state_name(op.name, *texts)


def tables(scope: str, use_resource: bool) -> List[Any]:
    """Two tables, of which the second one is partitioned."""
    with tf.variable_scope(scope):
        return [
            table("t{}".format(i), ROWS, width, use_resource, partitions=1 + 2 * i)
            for i, width in enumerate(WIDTHS)
        ]


class Models:
    """Both models, fed with the same ids and gradients.

    Attributes:
      deferred, stock: The variables of both.
      train: A step of both.
      catch_up_all: Catches up all rows.
      read: The pooled rows of both, the deferred ones caught up before.
      catch_up_rows: Catches up the rows of the lookups.
    """

    def __init__(self, case: Case) -> None:
        self.ids = [tf.sparse_placeholder(tf.int64, [None, None]) for _ in LOOKED_UP]
        self.gradients = [tf.placeholder(tf.float32, [None, WIDTHS[t]]) for t in LOOKED_UP]
        self.rate = tf.placeholder_with_default(0.01, [])
        self._make_stock(case)
        self._make_deferred(case)
        self._initialize = tf.global_variables_initializer()
        self._start_alike = [
            tf.assign(ours, theirs.read_value()).op
            for ours, theirs in zip(self.deferred.weights, self.stock.weights)
        ]

    def _make_stock(self, case: Case) -> None:
        params = tables("stock", case.use_resource)
        self.stock_pooled = [
            tf.nn.safe_embedding_lookup_sparse(
                params[t], ids, None, "sum", partition_strategy=case.strategy
            )
            for t, ids in zip(LOOKED_UP, self.ids)
        ]
        loss = tf.add_n(
            [tf.reduce_sum(rows * one) for rows, one in zip(self.stock_pooled, self.gradients)]
        )
        adam = tf.train.AdamOptimizer(self.rate, BETA1, BETA2, EPSILON)
        self.stock_train = adam.minimize(loss)
        parts = [part for one in params for part in parts_of(one)]
        self.stock = Shards(
            parts, *([adam.get_slot(part, slot) for part in parts] for slot in ("m", "v"))
        )

    def _make_deferred(self, case: Case) -> None:
        params = tables("deferred", case.use_resource)
        parts = [part for one in params for part in parts_of(one)]
        slots = [
            [
                tf.get_variable(
                    "deferred/{}_{}".format(slot, i),
                    part.shape.as_list(),
                    initializer=tf.zeros_initializer(),
                    use_resource=case.use_resource,
                )
                for i, part in enumerate(parts)
            ]
            for slot in ("m", "v")
        ]
        self.deferred = Shards(parts, *slots)
        self.powers = [
            tf.get_variable("power{}".format(i), initializer=beta, use_resource=case.use_resource)
            for i, beta in enumerate((BETA1, BETA2))
        ]
        requests = [
            LookupRequest(params[t], in_layout(ids, case.layout), "sum")
            for t, ids in zip(LOOKED_UP, self.ids)
        ]
        values, ids, attributes = inputs_of(lookup_group(requests, case.strategy)[0].op)
        attributes = attributes._replace(safe=case.safe)
        self.variables = [reference(part) for part in parts]
        self.slots = [reference(part) for part in [*slots[0], *slots[1]]]
        self.states = [state_of(part) for part in parts]
        self.names = [part.op.name for part in parts]
        self.catch_up_all = group_embedding_catch_up_all(
            "Adam", self.variables, self.slots, self.states, self.names
        )
        self.catch_up_rows = group_embedding_catch_up(
            "Adam", self.variables, self.slots, self.states, ids, attributes
        )
        with tf.control_dependencies([self.catch_up_rows]):
            pooled = group_embedding_lookup(
                values, ids, attributes, [tf.float32] * len(LOOKED_UP), name="lookup"
            )
        self.read = list(zip(pooled, self.stock_pooled))
        powers = [power.read_value() for power in self.powers]
        apply = group_embedding_apply(
            "Adam",
            self.variables,
            self.slots,
            [self.rate, *map(tf.constant, (BETA1, BETA2, EPSILON)), *powers],
            ids,
            attributes,
            self.gradients,
            row_states=self.states,
        )
        with tf.control_dependencies([apply]):
            turned = [
                tf.assign(power, value * beta).op
                for power, value, beta in zip(self.powers, powers, (BETA1, BETA2))
            ]
        self.deferred_train = tf.group(apply, *turned)
        self.train = tf.group(self.deferred_train, self.stock_train)

    def start(self, session: Any) -> None:
        """Initializes both alike."""
        session.run(self.catch_up_all)
        session.run(self._initialize)
        session.run(self._start_alike)

    def feed(self, batch: Sequence[Sequence[Sequence[int]]], seed: int) -> Dict[Any, Any]:
        """The feed for a batch: for each lookup the ids of each bag."""
        random = np.random.RandomState(seed)
        feed: Dict[Any, Any] = {}
        for placeholder, gradient, bags in zip(self.ids, self.gradients, batch):
            feed[placeholder] = sparse_value(bags)
            size = [len(bags), gradient.shape.as_list()[1]]
            feed[gradient] = random.randn(*size).astype(np.float32)
        return feed

    def compare(self, session: Any, steps: int) -> None:
        """Fails unless all rows are those of TensorFlow's Adam; catches them up before."""
        session.run(self.catch_up_all)
        ours, theirs = session.run([self.deferred.all(), self.stock.all()])
        for variable, one, other in zip(self.deferred.all(), ours, theirs):
            # Moments: a multiplication for each step in one of them, a power in the other.
            scale = np.abs(other).max(initial=1e-30)
            np.testing.assert_allclose(
                one, other, rtol=2e-6 + 1e-7 * steps, atol=2e-6 * scale, err_msg=variable.op.name
            )


def in_layout(ids: tf.SparseTensor, layout: str) -> Any:
    """The ids in another form."""
    if layout == "sparse":
        return ids
    if layout == "dense":
        return tf.sparse.to_dense(ids, default_value=-1)
    return tf.RaggedTensor.from_value_rowids(
        ids.values, ids.indices[:, 0], nrows=ids.dense_shape[0]
    )


def sparse_value(bags: Sequence[Sequence[int]]) -> Any:
    """Bags of ids as the value of a sparse placeholder."""
    indices = [[row, at] for row, ids in enumerate(bags) for at in range(len(ids))]
    values = [one for ids in bags for one in ids]
    longest = max([len(ids) for ids in bags] + [1])
    return tf.SparseTensorValue(
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array([len(bags), longest], np.int64),
    )


def random_batch(
    random: np.random.RandomState, rows: int = ROWS, length: int = 2
) -> List[List[List[int]]]:
    """Bags of equal length for each lookup."""
    return [random.randint(0, rows, [BAGS, length]).tolist() for _ in LOOKED_UP]


def train(models: Models, session: Any, seeds: range, rows: int = ROWS) -> None:
    """A step of both models for each seed, whose ids are below `rows`."""
    for seed in seeds:
        batch = random_batch(np.random.RandomState(seed), rows)
        session.run(models.train, models.feed(batch, seed))


def adam_of(
    references: List[tf.Tensor],
    states: List[str],
    ids: tf.Tensor,
    gradient: tf.Tensor,
    optimizer: str = "Adam",
    **values: float,
) -> tf.Operation:
    """An update of a table, the first of the references, which are followed by its slots."""
    spec = optimizer_specs()[optimizer]
    hyperparameters = [tf.constant(values.get(k, v)) for k, v in spec.hyperparameters.items()]
    empty = tf.zeros([0], tf.int64)
    attributes = GroupAttributes([0], [1], ["table"], ["sum"], ["dense"], [False], [-1])
    return group_embedding_apply(
        optimizer,
        references[:1],
        references[1:],
        hyperparameters,
        GroupIds([ids], [empty], [empty], []),
        attributes,
        [gradient],
        row_states=states,
    )
