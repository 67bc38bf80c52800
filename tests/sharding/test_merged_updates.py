"""Updates of sharded tables in TensorFlow's own sessions: one op for those of an exchange."""

from __future__ import annotations

import collections
import functools
from typing import Any, Callable, Counter, Dict, Iterator, List, NamedTuple, Sequence

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.compat.keras_optimizers import legacy
from graph_opt.ops.merged_updates import merge_updates
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.sharding.divided_gradients import divided_by
from graph_opt.sharding.equal_updates import has_equal_bits, note_update
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.plain_sessions import plain_session

WIDTHS = (1, 5, 16)
ROWS = 30
STEPS = 4
MERGED = "ResourceExchangeApply"
RESOURCE = "Resource"
STOCK = "ResourceSparseApply"
UPDATES = [
    stock.op
    for spec in optimizer_specs().values()
    for stock in spec.stock_ops
    if "rows" in stock.inputs
]
Pairs = List[Any]
# Makes the training step of gradients and tables, and what is to be fetched with it.
Training = Callable[[Pairs], Any]

OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.02),
    "locked": lambda: tf.train.AdagradOptimizer(0.1, use_locking=True),
    "rms_prop": lambda: tf.train.RMSPropOptimizer(0.01),
    "centered": lambda: tf.train.RMSPropOptimizer(0.01, centered=True),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "proximal": lambda: tf.train.ProximalAdagradOptimizer(0.1),
    "keras_adagrad": lambda: legacy.Adagrad(0.1),
    "keras_momentum": lambda: legacy.SGD(0.1, momentum=0.9),
    "wrapped": lambda: sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1)),
}


def momentum() -> Any:
    """An optimizer without roots, whose bits are the same with every release of TensorFlow."""
    return OPTIMIZERS["momentum"]()


class Trained(NamedTuple):
    """What training has done on a rank.

    Attributes:
      ops: Of the nodes that the last step has run, how many there were of each.
      values: The tables and slots, as bytes.
      told: What the report says.
      graph: What was trained.
    """

    ops: Counter[str]
    values: List[bytes]
    told: Sequence[str]
    graph: Any


def trained(
    training: Training, open_session: Callable[[], Any] = plain_session, ranks: int = 2
) -> Trained:
    """Trains three tables on ranks; what the first of them has seen."""
    return run_ranks(
        ranks, lambda transport: _of_rank(transport, training, open_session), timeout_seconds=60
    )[0]


def _of_rank(transport: Transport, training: Training, open_session: Callable[[], Any]) -> Trained:
    with communicating_through(transport), tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        random = np.random.RandomState(7)
        tables = [
            sok.Variable(random.normal(size=(ROWS, width)).astype(np.float32), name="t")
            for width in WIDTHS
        ]
        ids = tf.sparse_placeholder(tf.int64, [None, 4])
        pooled = sok.lookup_sparse(tables, [ids] * len(tables), combiners=["sum"] * len(tables))
        loss = tf.add_n([tf.reduce_sum(tf.square(one - 0.3)) for one in pooled])
        train = training(list(zip(tf.gradients(loss, tables), tables)))
        values = tf.global_variables()
        with open_session() as session:
            session.run(tf.global_variables_initializer())
            metadata = tf.RunMetadata()
            for step in range(STEPS):
                fed = {ids: _bags(step, transport.rank)}
                options = tf.RunOptions(output_partition_graphs=True)
                session.run(train, fed, options=options, run_metadata=metadata)
            found = [value.tobytes() for value in session.run(values)]
        nodes = (node for part in metadata.partition_graphs for node in part.node)
        report = graph_opt.report(graph)
        return Trained(
            collections.Counter(node.op for node in nodes),
            found,
            () if report is None else report.changes,
            graph,
        )


def _bags(step: int, rank: int) -> Any:
    random = np.random.RandomState([step, rank])
    places = [(bag, place) for bag in range(5) for place in range(random.randint(1, 4))]
    ids = random.randint(0, ROWS, len(places))
    return tf.SparseTensorValue(np.array(places, np.int64), ids, (5, 4))


_has_equal_bits = functools.lru_cache(maxsize=None)(has_equal_bits)


@pytest.fixture
def unmerged() -> Iterator[Callable[..., Trained]]:
    """Trains as `trained` does, without merging updates."""

    def train(*given: Any) -> Trained:
        for name in UPDATES:
            merge_updates(name, allowed=False)
        try:
            return trained(*given)
        finally:
            for name in UPDATES:
                merge_updates(name, _has_equal_bits(name))

    yield train


def applied(name: str, divisor: int = 1) -> Training:
    """A step of an optimizer, by gradients that may be averaged."""

    def training(pairs: Pairs) -> Any:
        divided = [(divided_by(one, divisor) if divisor > 1 else one, t) for one, t in pairs]
        return OPTIMIZERS[name]().apply_gradients(divided)

    return training


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_one_op_gives_the_bits_of_the_scripts_updates(
    name: str, unmerged: Callable[..., Trained]
) -> None:
    one, several = trained(applied(name)), unmerged(applied(name))
    (stock_op,) = (op for op in several.ops if op.startswith(STOCK))
    assert several.ops[MERGED] == 0 and several.ops["ExchangeGatherGrad"] == 1
    assert one.values == several.values
    if _has_equal_bits(stock_op[len(RESOURCE) :]):
        assert one.ops[MERGED] == 1 and one.ops["ExchangeGatherGrad"] == 0
        assert one.told == ("the updates of 3 tables, which ranks share, are one op",)
    else:
        assert one.ops == several.ops
        (told,) = one.told
        assert "TensorFlow rounds {} in another way".format(stock_op[len(RESOURCE) :]) in told


def test_each_graph_of_a_process_has_a_report_of_its_own_updates() -> None:
    one, several = trained(applied("momentum")), trained(clipped)
    sums = [
        [op.name for op in each.graph.get_operations() if op.type == "ExchangeGatherGrad"]
        for each in (one, several)
    ]
    assert sums[0] == sums[1]
    assert one.told != several.told
    for each in (one, several):
        report = graph_opt.report(each.graph)
        assert report is not None and report.changes == each.told


def test_nothing_is_left_of_what_updates_alone_needed() -> None:
    ops = trained(applied("momentum")).ops
    assert ops["VariableShape"] == 0 and ops["ResourceSparseApplyMomentum"] == 0


@pytest.mark.parametrize("divisor", [2, 3])
def test_averages_have_the_same_bits(divisor: int, unmerged: Callable[..., Trained]) -> None:
    one, several = trained(applied("momentum", divisor)), unmerged(applied("momentum", divisor))
    assert one.values == several.values
    assert one.ops[MERGED] == 1 and several.ops[MERGED] == 0


@pytest.mark.grappler
@pytest.mark.parametrize(("divisor", "merged"), [(2, 1), (3, 0)])
def test_averages_that_tensorflow_makes_products_have_the_same_bits(
    divisor: int, merged: int, unmerged: Callable[..., Trained]
) -> None:
    one = trained(applied("momentum", divisor), tf.Session)
    several = unmerged(applied("momentum", divisor), tf.Session)
    assert one.values == several.values
    assert one.ops[MERGED] == merged and several.ops[MERGED] == 0


def summed_again(divisor: int = 1, *, divides_first: bool = True) -> Training:
    """Sums what rows have got once more, as optimizers do that expect repeated rows."""

    def training(pairs: Pairs) -> Any:
        changed = []
        for one, table in pairs:
            rows, numbers = tf.unique(one.indices)
            values = one.values / divisor if divides_first else one.values
            values = tf.math.unsorted_segment_sum(values, numbers, tf.shape(rows)[0])
            values = values if divides_first else values / divisor
            changed.append((tf.IndexedSlices(values, tf.identity(rows)), table))
        note_update("ResourceSparseApplyMomentum")
        return UpdatesRowsAsTheyCome(0.1, 0.9).apply_gradients(changed)

    return training


class UpdatesRowsAsTheyCome(tf.train.MomentumOptimizer):
    """Does not sum again."""

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Any, handle: Any, indices: Any, **state: Any
    ) -> Any:
        return self._resource_apply_sparse(grad, handle, indices, **state)


@pytest.mark.parametrize("divides_first", [True, False])
@pytest.mark.parametrize("divisor", [1, 3])
def test_rows_that_are_summed_again_have_the_same_bits(
    divisor: int, divides_first: bool, unmerged: Callable[..., Trained]
) -> None:
    training = summed_again(divisor, divides_first=divides_first)
    one, several = trained(training), unmerged(training)
    assert one.values == several.values
    assert one.ops[MERGED] == 1 and several.ops[MERGED] == 0
    for op in ("Unique", "UnsortedSegmentSum", "StridedSlice"):
        assert several.ops[op] == one.ops[op] + len(WIDTHS)


def summed_by_other_numbers(pairs: Pairs) -> Any:
    changed = []
    for one, table in pairs:
        rows, numbers = tf.unique(one.indices)
        values = tf.math.unsorted_segment_sum(one.values, tf.identity(numbers[::-1]), tf.size(rows))
        changed.append((tf.IndexedSlices(values, tf.identity(rows)), table))
    note_update("ResourceSparseApplyMomentum")
    return UpdatesRowsAsTheyCome(0.1, 0.9).apply_gradients(changed)


def test_what_waits_for_updates_waits_for_the_op() -> None:
    def training(pairs: Pairs) -> Any:
        table = pairs[0][1]
        before = table.read_value()
        with tf.control_dependencies([before]):
            train = momentum().apply_gradients(pairs)
        with tf.control_dependencies([train]):
            after = table.read_value()
        return tf.Assert(tf.reduce_any(tf.not_equal(after, before)), ["rows are as they were"])

    assert trained(training).ops[MERGED] == 1


def test_an_update_that_is_run_alone_is_the_scripts_own() -> None:
    def training(pairs: Pairs) -> Any:
        train = momentum().apply_gradients(pairs)
        return train.control_inputs[0]

    found = trained(training)
    assert found.ops[MERGED] == 0 and found.ops["ResourceSparseApplyMomentum"] == 1
    assert "tables of the exchange stay as they are" in found.told[0]


def clipped(pairs: Pairs) -> Any:
    changed = [(tf.IndexedSlices(one.values * 3.0, one.indices), t) for one, t in pairs[:1]]
    return momentum().apply_gradients([*changed, *pairs[1:]])


def by_two_optimizers(pairs: Pairs) -> Any:
    first = OPTIMIZERS["keras_momentum"]().apply_gradients(pairs[:1])
    return [first, momentum().apply_gradients(pairs[1:])]


def at_two_rates(pairs: Pairs) -> Any:
    halves = pairs[:1], pairs[1:]
    rates = 0.1, 0.2
    return [
        tf.train.MomentumOptimizer(rate, 0.9, name="a{}".format(rate)).apply_gradients(half)
        for rate, half in zip(rates, halves)
    ]


def fetched(pairs: Pairs) -> Any:
    return [momentum().apply_gradients(pairs), pairs[1][0].values]


def one_after_the_other(pairs: Pairs) -> Any:
    optimizer = momentum()
    first = optimizer.apply_gradients(pairs[:1])
    with tf.control_dependencies([first]):
        return optimizer.apply_gradients(pairs[1:])


def with_another_root(pairs: Pairs) -> Any:
    return tf.train.FtrlOptimizer(0.1, learning_rate_power=-0.7).apply_gradients(pairs)


def moving_every_row(pairs: Pairs) -> Any:
    return tf.train.AdamOptimizer(0.01).apply_gradients(pairs)


@pytest.mark.parametrize(
    ("training", "why"),
    [
        (clipped, "needs ExchangeGatherGrad"),
        (by_two_optimizers, "in optimizer, hyperparameters or what it waits for"),
        (at_two_rates, "in optimizer, hyperparameters or what it waits for"),
        (one_after_the_other, "they depend on each other"),
        (fetched, "needs ExchangeGatherGrad"),
        (summed_by_other_numbers, "needs ExchangeGatherGrad"),
        (with_another_root, "learning_rate_power of ResourceSparseApplyFtrl"),
        (moving_every_row, "needs ExchangeGatherGrad"),
    ],
)
def test_other_updates_stay_as_the_script_has_them(training: Training, why: str) -> None:
    found = trained(training)
    assert found.ops[MERGED] == 0 and found.ops["ExchangeGatherGrad"] == 1
    (told,) = found.told
    assert why in told


def test_a_config_leaves_updates_to_tensorflow() -> None:
    def open_session() -> Any:
        config = graph_opt.ConfigProto()
        options = config.graph_options.optimizer_options
        options.do_group_embedding = True
        options.group_embedding_options.fuse_update = False
        return graph_opt.Session(config=config)

    ops = trained(applied("momentum"), open_session).ops
    assert ops[MERGED] == 0 and ops["ResourceSparseApplyMomentum"] == 3


def test_learning_rates_may_be_tensors(unmerged: Callable[..., Trained]) -> None:
    def training(pairs: Pairs) -> Any:
        step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.1, step, 2, 0.7)
        return tf.train.MomentumOptimizer(rate, 0.9).apply_gradients(pairs, step)

    one, several = trained(training), unmerged(training)
    assert one.values == several.values and one.ops[MERGED] == 1
