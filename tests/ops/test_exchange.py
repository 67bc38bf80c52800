"""Lookups in tables spread over ranks: the same as TensorFlow's in one process."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Tuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from graph_opt.compat import tf
from graph_opt.ops import exchange
from graph_opt.ops.exchange import exchange_gather, exchange_lookup, exchange_prepare
from graph_opt.ops.group_embedding import GroupIds
from graph_opt.ops.packed_embedding import ShardPlacement
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from tests.example_share import example_share
from tests.ops.exchange_ranks import (
    MODES,
    ExchangeCase,
    LookupCase,
    TableCase,
    build_rank,
    look_up_on_rank,
    loss_on_rank,
    merged,
    on_rank,
    parts_of_rank,
    stock,
    stock_step,
)
from tests.quick_cases import slow_but

DTYPES = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 8e-2}


def bags_of(
    draw: Any, rows: int, weighted: bool, empty: bool, first_id: int
) -> List[Tuple[List[int], Any]]:
    """The bags of one rank; None at all if `empty`."""
    bags = []
    for _ in range(0 if empty else draw(st.integers(0, 4))):
        ids = draw(st.lists(st.integers(first_id, rows - 1), max_size=4))
        weights = [draw(st.integers(-4, 8)) / 2.0 if weighted else 1.0 for _ in ids]
        bags.append((ids, weights))
    return bags


@st.composite
def cases(draw: Any) -> ExchangeCase:
    """Tables of several widths and placements, and several lookups in them."""
    size = draw(st.integers(1, 8))
    random = np.random.RandomState(draw(st.integers(0, 99)))
    dtype = tf.as_dtype(draw(st.sampled_from(sorted(DTYPES)))).as_numpy_dtype
    tables = []
    for _ in range(draw(st.integers(1, 4))):
        rows, width = draw(st.integers(1, 20)), draw(st.integers(1, 9))
        values = (random.randint(-16, 17, size=(rows, width)) / 8.0).astype(dtype)
        where = draw(st.sampled_from(["mod", "div", draw(st.integers(0, size - 1))]))
        tables.append(TableCase(values, where))
    empty = [draw(st.integers(0, 3)) == 0 for _ in range(size)]
    joined, safe = draw(st.booleans()), draw(st.booleans())
    counts = [draw(st.integers(0, 4)) for _ in range(size)]
    lookups: List[LookupCase] = []
    default_ids: List[int] = []
    for i in range(len(tables) + draw(st.integers(0, 1))):
        table, weighted = i % len(tables), draw(st.booleans())
        rows = len(tables[table].values)
        first_id = -1 if safe else 0
        ranks = [bags_of(draw, rows, weighted, empty[rank], first_id) for rank in range(size)]
        if joined:  # as many bags in each lookup
            ranks = [(bags + [([], [])] * 4)[:count] for bags, count in zip(ranks, counts)]
        combiner = draw(st.sampled_from(["sum", "mean", "sqrtn"]))
        lookups.append(LookupCase(table, combiner, weighted, ranks))
        default_ids.append(draw(st.integers(-1, rows - 1)))
    return ExchangeCase(size, tables, lookups, joined, default_ids if safe else None)


def check(case: ExchangeCase, mode: str) -> None:
    """Compares an exchange with TensorFlow's lookups, in values and gradients."""
    tolerance = DTYPES[tf.as_dtype(case.tables[0].values.dtype).name]
    got = merged(case, run_ranks(case.size, lambda rank: on_rank(case, rank, mode), 60))
    for ours, theirs in zip(got, stock(case)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            scale = 1 + np.abs(other).max(initial=0)
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


@example_share(0.03)
@given(case=cases(), mode=st.sampled_from(MODES))
def test_an_exchange_is_a_lookup_in_one_process(case: ExchangeCase, mode: str) -> None:
    check(case, mode)


@pytest.mark.slow
@given(case=cases(), mode=st.sampled_from(MODES))
def test_many_exchanges_are_lookups_in_one_process(case: ExchangeCase, mode: str) -> None:
    check(case, mode)


def of_three_ranks(bags: List[List[Tuple[List[int], List[float]]]]) -> ExchangeCase:
    """One table of each placement, in one exchange; weights are only read of the last lookup."""
    random = np.random.RandomState(5)
    tables = [
        TableCase(random.randn(11, width).astype(np.float32), where)
        for width, where in ((4, "mod"), (3, "div"), (5, 2), (1, 0))
    ]
    lookups = [LookupCase(i, "mean", False, bags) for i in range(3)]
    return ExchangeCase(3, tables, [*lookups, LookupCase(3, "sqrtn", True, bags)])


BAGS = [
    [([1, 2, 1], [0.5, -1.0, 2.0]), ([], []), ([10, 0], [1.0, 1.5])],
    [],
    [([1], [3.0]), ([2, 10, 10, 1], [1.0, 0.25, 0.5, 1.0]), ([4], [1.0])],
]


@pytest.mark.parametrize("joined", slow_but([False, True], True))
def test_tables_of_all_placements_share_an_exchange(joined: bool) -> None:
    case = of_three_ranks(BAGS)._replace(joined=joined)
    check(case, "resources")
    check(case, "eager")


def optimizers() -> Dict[str, Any]:
    return {
        "momentum": tf.train.MomentumOptimizer(0.1, 0.9),
        "adagrad": tf.train.AdagradOptimizer(0.1),
        "adam": tf.train.AdamOptimizer(0.01),
    }


@pytest.mark.parametrize("optimizer", slow_but(["momentum", "adagrad", "adam"], "adam"))
def test_training_is_that_of_one_process(optimizer: str) -> None:
    steps, case = 20, of_three_ranks(BAGS)

    def train(loss_of: Any, parts: List[np.ndarray]) -> List[np.ndarray]:
        with tf.Graph().as_default(), tf.Session() as session:
            tables = [tf.Variable(part, use_resource=True) for part in parts]
            training = optimizers()[optimizer].minimize(loss_of(tables), var_list=tables)
            session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(training)
            return session.run(tables)

    def on_one_rank(transport: InProcessTransport) -> List[np.ndarray]:
        def loss_of(tables: List[Any]) -> tf.Tensor:
            return loss_on_rank(case, transport, tables)

        return train(loss_of, parts_of_rank(case, transport.rank))

    ranks = run_ranks(3, on_one_rank, 60)
    whole = [table.values for table in case.tables]
    expected = train(lambda tables: stock_step(case, tables)[0], whole)
    for table, values in enumerate(expected):
        trained = np.empty_like(values)
        for rank, rows in enumerate(case.rows_of(table)):
            trained[rows] = ranks[rank][table]
        np.testing.assert_allclose(trained, values, rtol=1e-4, atol=1e-5)


def arrays_of(results: Any) -> List[bytes]:
    return [one.tobytes() for one in tf.nest.flatten(results)]


def test_results_are_the_same_to_the_bit_every_time_and_wherever_bags_are_pooled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = of_three_ranks([BAGS[0], BAGS[2], BAGS[0]])
    unweighted = case._replace(lookups=case.lookups[:3], tables=case.tables[:3])
    results = []
    for choice in ("never", "always", "auto", "auto"):
        prepare = functools.partial(exchange_prepare, pool_on_owner=choice)
        monkeypatch.setattr(exchange, "exchange_prepare", prepare)
        results.append(arrays_of(run_ranks(3, lambda rank: on_rank(unweighted, rank, "eager"), 60)))
    assert results[1:] == results[:1] * 3


@pytest.mark.parametrize("pool_on_owner", ["never", "always"])
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_rows_of_lookups_without_gradient_are_left_alone(
    dtype: str, pool_on_owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Momentum would move a row with a gradient of zero; in TensorFlow it has none."""
    prepare = functools.partial(exchange_prepare, pool_on_owner=pool_on_owner)
    monkeypatch.setattr(exchange, "exchange_prepare", prepare)
    values = np.ones([9, 3], tf.as_dtype(dtype).as_numpy_dtype)
    used = [[([1, 2], [1.0] * 2), ([8], [1.0])], [([2], [1.0])]]
    unused = [[([3, 2], [1.0] * 2)], [([4], [1.0]), ([5, 1], [1.0] * 2)]]
    case = ExchangeCase(
        2,
        [TableCase(values, where) for where in ("mod", 1, "div")],
        [LookupCase(table, "sum", False, bags) for table in (0, 1) for bags in (used, unused)]
        + [LookupCase(2, "sum", False, unused)],
    )

    def gradients(transport: InProcessTransport) -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            tables = [tf.Variable(part) for part in parts_of_rank(case, transport.rank)]
            pooled = look_up_on_rank(case, transport, tables, [])
            loss = tf.reduce_sum(pooled[0]) + tf.reduce_sum(pooled[2])
            slices = [(one.indices, one.values) for one in tf.gradients(loss, tables)]
            session.run(tf.global_variables_initializer())
            return session.run(slices)

    for rank, slices in enumerate(run_ranks(2, gradients, 60)):
        for table, (indices, found) in enumerate(slices):
            rows = [case.rows_of(table)[rank][index] for index in indices]
            of_rows = {} if table == 2 else {1: 1, 2: 2, 8: 1}
            assert rows == [row for row in of_rows if row in case.rows_of(table)[rank]]
            assert found.astype(np.float32).tolist() == [[of_rows[row]] * 3 for row in rows]


@pytest.mark.parametrize("pool_on_owner", ["never", "always"])
def test_empty_bags_give_the_row_that_fills_them_a_gradient_of_zero(
    pool_on_owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = functools.partial(exchange_prepare, pool_on_owner=pool_on_owner)
    monkeypatch.setattr(exchange, "exchange_prepare", prepare)
    empty: List[Tuple[List[int], List[float]]] = [([], [1.0])]
    full = [([3, 2], [1.0] * 2)]
    case = ExchangeCase(
        2,
        [TableCase(np.ones([9, 3], np.float32), where) for where in ("mod", 1, "div", 0)],
        [
            LookupCase(0, "sum", False, [full + empty, full]),
            LookupCase(1, "mean", False, [full, empty + full]),
            LookupCase(2, "sqrtn", False, [full, full]),
            LookupCase(3, "sum", False, [empty, empty]),
        ],
        default_ids=[-1] * 4,
        filled_ids=[0, 1, 0, -1],
    )
    for rank, (pooled, slices, _) in enumerate(
        run_ranks(2, lambda rank: on_rank(case, rank, "eager"), 60)
    ):
        assert [not one.any() for one in pooled[rank]] == [[False, True], [True, False]][rank]
        for table, (indices, values) in enumerate(slices):
            rows = case.rows_of(table)[rank]
            found = {rows[index]: value for index, value in zip(indices, values)}
            of_rows = [{0, 2, 3}, {1, 2, 3}, {2, 3}, set()][table]
            assert set(found) == of_rows.intersection(rows)
            assert all(found[row].any() == (row > 1) for row in found)


def nodes_of_rank(case: ExchangeCase, transport: InProcessTransport) -> Dict[str, Tuple[str, ...]]:
    """The nodes of a rank's graph, with their ops and inputs."""
    with tf.Graph().as_default() as graph:
        build_rank(case, transport)
        return {node.name: (node.op, *node.input) for node in graph.as_graph_def().node}


def test_all_ranks_have_the_same_graph_with_three_messages() -> None:
    case = of_three_ranks(BAGS)
    graphs = run_ranks(3, lambda rank: nodes_of_rank(case, rank))
    assert graphs[0] == graphs[1] == graphs[2]
    messages = [node for node in graphs[0].values() if node[0] == "ExchangeAllToAll"]
    assert len(messages) == 3


def test_a_bad_id_of_one_rank_ends_all() -> None:
    bags = [[([1], [1.0])], [([2, 11], [1.0, 1.0])], []]
    errors: List[str] = []

    def work(transport: InProcessTransport) -> None:
        try:
            on_rank(of_three_ranks(bags), transport, "resources")
        except tf.errors.OpError as error:
            errors.append(type(error).__name__)
            raise

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"id 11 in row 0 of lookup \d is not"):
        run_ranks(3, work, 60)
    assert sorted(errors) == ["InvalidArgumentError", "UnknownError", "UnknownError"]


def test_what_does_not_fit_is_an_error() -> None:
    case = of_three_ranks(BAGS)
    placement, widths = case.placement(), [4, 3, 5, 1]

    def look_up(placement: ShardPlacement, dtypes: List[Any]) -> None:
        ids = GroupIds([], [], [], [])
        exchange_lookup([], ids, case.attributes(), placement, 0, widths, dtypes, send, "exchange")

    def send(*_: Any) -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="dtypes float16, float32; need one dtype"):
        look_up(placement, [tf.float32] * 3 + [tf.float16])
    twice = placement._replace(servers=[0, 1, 1, *placement.servers[3:]])
    with pytest.raises(ValueError, match=r"3 shards of table 'table0' are on ranks \[0, 1, 1\]"):
        look_up(twice, [tf.float32] * 4)


_NOTHING = [0, 0, 0, 0, 0]  # a header, and a request for no rows of one shard


@pytest.mark.parametrize(
    "requests, splits, message",
    [
        ([0, 0, 0, 0, 1, 9, *_NOTHING], [6, 5], "from rank 0: row 9 is asked .* 1 .*, which has 4"),
        ([0, 0, 3, 1 << 32, 9, *_NOTHING], [5, 5], "from rank 0: row 9 is asked .*, which has 4"),
        ([*_NOTHING, 0, 0, 0, 0, 2, 0], [5, 6], "from rank 1: the request has 3 numbers and ends"),
        ([0, 0, 0, 0, 1], [5, 0], "from rank 0: the request has 2 numbers and ends within"),
        ([*_NOTHING, 0, 0, 0, 0], [5, 4], "from rank 1: the request has 1 numbers and ends within"),
        ([*_NOTHING, 0, 0], [5, 2], "from rank 1: the request has another size than it says"),
        ([*_NOTHING, 0, 0, 3, 0], [5, 4], "from rank 1: the request has another size than it says"),
        ([*_NOTHING, 0], [5, 1], "from rank 1: the message has no header, or a malformed one"),
        ([*_NOTHING, 0, 9, 0], [5, 3], "from rank 1: the message has no header, or a malformed"),
        ([*_NOTHING, 0], [5, 3], "splits says that rank 1 has sent 3 from number 5 on"),
        ([0, 1, 1], [-1, 3], r"splits\[0\] is -1"),
    ],
)
def test_a_malformed_request_is_an_error(
    requests: List[int], splits: List[int], message: str
) -> None:
    rows = exchange_gather(
        [tf.zeros([4, 2])],
        tf.constant(requests, tf.int64),
        tf.constant(splits, tf.int32),
        ["a"],
        [2],
        tf.float32,
    )
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(rows)
