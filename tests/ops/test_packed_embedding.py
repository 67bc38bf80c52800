"""Packed lookups and updates within one process are bitwise equal to the local ops."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.compat.variables import parts_of
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from graph_opt.ops.group_embedding import group_embedding_apply, group_embedding_lookup
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.ops.packed_embedding import (
    PreparedRows,
    group_embedding_combine,
    group_embedding_gather,
    group_embedding_pack_gradients,
    group_embedding_prepare,
    ops_loaded,
)
from tests.embedding.lookup_groups import IdBags, in_session, random_bags, table
from tests.example_share import example_share
from tests.ops.packed_groups import PackedGroup, packed, random_servers
from tests.optimizer_models import usual_cases
from tests.quick_cases import slow_but

ROWS = 17
INT_TYPES = (tf.int32, tf.int64)


def random_group(
    random: np.random.RandomState,
    use_resource: bool,
    weighted: bool,
    strategy: str = "mod",
    layout: str = "sparse",
    dtype: Any = tf.float32,
    rows: int = 6,
) -> Tuple[List[Any], List[tf.Tensor]]:
    """Three tables of one to three shards, and the results of four lookups by one op."""
    tables = [
        table("t{}".format(i), ROWS + i, width, use_resource, 1 + i, dtype)
        for i, width in enumerate(random.choice([1, 3, 8, 16, 21], 3))
    ]
    bags = [random_bags(random, rows, ROWS) for _ in range(4)]
    weighted = weighted and layout != "dense"
    requests = [
        LookupRequest(
            params,
            getattr(bag, layout)(INT_TYPES[random.randint(2)]),
            str(random.choice(["sum", "mean", "sqrtn"])),
            getattr(bag, layout + "_weights")() if weighted else None,
            int(default) if default >= 0 else None,
        )
        for params, bag, default in zip([*tables, tables[1]], bags, random.randint(-9, ROWS, 4))
    ]
    return tables, lookup_group(requests, strategy)


def shards_of(tables: List[Any]) -> List[Any]:
    return [part for one in tables for part in parts_of(one)]


def joined(group: PackedGroup) -> PackedGroup:
    """The same lookups with columns of one tensor as their results."""
    widths = [group.widths[lookup] for lookup in group.attributes.lookup_tables]
    columns = [sum(widths[i + 1 :]) for i in range(len(widths))]  # the last lookup comes first
    attributes = group.attributes._replace(columns=columns, columns_width=sum(widths))
    return group._replace(attributes=attributes)


@example_share(0.07)
@given(
    seed=st.integers(0, 10**6),
    use_resource=st.booleans(),
    weighted=st.booleans(),
    strategy=st.sampled_from(["mod", "div"]),
    layout=st.sampled_from(["sparse", "shuffled", "ragged", "dense"]),
    dtype=st.sampled_from([tf.float32, tf.float16, tf.bfloat16]),
    num_servers=st.integers(1, 3),
    has_columns=st.booleans(),
    rows=st.sampled_from([0, 1, 6]),
    pool_on_server=st.sampled_from(["never", "always"]),
)
def test_a_packed_lookup_equals_a_local_one(
    seed: int,
    use_resource: bool,
    weighted: bool,
    strategy: str,
    layout: str,
    dtype: Any,
    num_servers: int,
    has_columns: bool,
    rows: int,
    pool_on_server: str,
) -> None:
    random = np.random.RandomState(seed)
    with tf.Graph().as_default():
        tables, local = random_group(random, use_resource, weighted, strategy, layout, dtype, rows)
        parts = shards_of(tables)
        group = packed(local[0].op, parts, random_servers(random, len(parts), num_servers))
        group = group._replace(pool_on_server=pool_on_server)
        if has_columns:
            group = joined(group)
            local = group_embedding_lookup(group.shards, group.ids, group.attributes, [dtype])
        results = group.look_up()
        assert [r.shape.as_list() for r in results] == [one.shape.as_list() for one in local]
        assert {r.dtype for r in results} == {dtype}
        wide = [[tf.cast(one, tf.float32) for one in several] for several in (results, local)]
        for got, expected in zip(*in_session(wide)):
            np.testing.assert_array_equal(got, expected)


def reference(part: Any, use_resource: bool) -> tf.Tensor:
    return part.handle if use_resource else part.op.outputs[0]


def values_after(
    update: str,
    use_resource: bool,
    num_servers: int,
    has_columns: bool,
    pool_on_server: str = "never",
    sends_bags_again: bool = False,
    fills: bool = False,
) -> List[np.ndarray]:
    """Tables and slots after three updates, by the local op if there is no server."""
    optimizer, flags = usual_cases()[update]
    spec = optimizer_specs()[optimizer]
    options: Dict[str, Any] = {"flags": flags, "use_locking": optimizer == "Momentum"}
    random = np.random.RandomState(len(spec.slots))
    with tf.Graph().as_default():
        tables, local = random_group(random, use_resource, True, rows=30)
        parts = shards_of(tables)
        slots = [
            [
                tf.get_variable(
                    "{}_{}".format(slot, i),
                    part.shape.as_list(),
                    initializer=tf.constant_initializer(initial),
                    use_resource=use_resource,
                )
                for i, part in enumerate(parts)
            ]
            for slot, initial in spec.slots.items()
        ]
        servers = random_servers(np.random.RandomState(3), len(parts), max(num_servers, 1))
        group = packed(local[0].op, parts, servers)._replace(
            pool_on_server=pool_on_server, sends_bags_again=sends_bags_again
        )
        if fills:
            filled = group.attributes._replace(filled_ids=[0] * len(local))
            group = group._replace(attributes=filled)
        if has_columns:
            group = joined(group)
        sizes = [one.shape.as_list() for one in local]
        if has_columns:
            sizes = [[30, group.attributes.columns_width]]
        gradients = [tf.constant(random.randn(*size).astype(np.float32)) for size in sizes]
        references = [reference(part, use_resource) for part in parts]
        slot_references = [[reference(one, use_resource) for one in slot] for slot in slots]
        hyperparameters = [tf.constant(value) for value in spec.hyperparameters.values()]
        if num_servers == 0:
            train = group_embedding_apply(
                optimizer,
                references,
                [one for slot in slot_references for one in slot],
                hyperparameters,
                group.ids,
                group.attributes,
                gradients,
                **options,
            )
        else:
            train = group.apply(
                optimizer, references, slot_references, hyperparameters, gradients, **options
            )
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            return session.run([*parts, *(one for slot in slots for one in slot)])


@pytest.mark.parametrize(
    "use_resource, pool_on_server",
    [
        pytest.param(False, "never", marks=pytest.mark.slow),
        pytest.param(False, "always", marks=pytest.mark.slow),
        pytest.param(True, "never", marks=pytest.mark.slow),
        (True, "always"),
    ],
)
@pytest.mark.parametrize("update", slow_but(sorted(usual_cases()), *sorted(optimizer_specs())[::2]))
@pytest.mark.parametrize("num_servers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_packed_update_equals_a_local_one(
    num_servers: int, update: str, use_resource: bool, pool_on_server: str
) -> None:
    expected = values_after(update, use_resource, num_servers=0, has_columns=False)
    got = values_after(update, use_resource, num_servers, False, pool_on_server)
    for one, other in zip(got, expected):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("pool_on_server", ["never", "always"])
def test_a_packed_update_with_columns_equals_a_local_one(pool_on_server: str) -> None:
    expected = values_after("Adagrad-update_slots", True, num_servers=0, has_columns=True)
    got = values_after("Adagrad-update_slots", True, 2, True, pool_on_server)
    for one, other in zip(got, expected):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "update, pool_on_server",
    [
        ("Adagrad-update_slots", "auto"),
        ("Momentum", "always"),
        pytest.param("Adagrad-update_slots", "always", marks=pytest.mark.slow),
        pytest.param("Momentum", "never", marks=pytest.mark.slow),
    ],
)
def test_an_update_with_the_bags_of_a_request_equals_a_local_one(
    update: str, pool_on_server: str
) -> None:
    expected = values_after(update, True, num_servers=0, has_columns=False, fills=True)
    got = values_after(update, True, 3, False, pool_on_server, sends_bags_again=True, fills=True)
    for one, other in zip(got, expected):
        np.testing.assert_array_equal(one, other)


def test_bags_are_sent_once_rows_have_turned_out_to_be_more() -> None:
    params = table("t", 900, 4, use_resource=False)
    ids = tf.random.uniform([50, 20], 0, 900, tf.int64, seed=3)
    pooled = lookup_group([LookupRequest(params, ids, "mean")])
    group = packed(pooled[0].op, [params], [0])
    prepared = group_embedding_prepare(group.ids, group.attributes, group.placement, [4])
    looked_up = group.look_up()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        sent = [session.run([prepared.requests[0], prepared.counts]) for _ in range(3)]
        rows, *others = [int(counts[0]) for _, counts in sent]
        assert 500 < rows < 900 and others == [-1, -1]
        sizes = [request.nbytes for request, _ in sent]
        assert sizes[1] == sizes[2] < sizes[0]
        for _ in range(3):
            np.testing.assert_array_equal(*session.run([looked_up[0], pooled[0]]))


def test_a_request_has_each_row_once() -> None:
    params = table("t", 9, 4, use_resource=False, partitions=2)
    bags = IdBags([[1, 8, 1], [-1], [3, 8, 0]], [])
    pooled = lookup_group([LookupRequest(params, bags.sparse(), "sum")])
    group = packed(pooled[0].op, shards_of([params]), [1, 0])
    prepared = group_embedding_prepare(group.ids, group.attributes, group.placement, [4])
    (second, first), inverse, counts = in_session(prepared)
    np.testing.assert_array_equal(first, [0, 2, 0, 4])  # ids 0 and 8
    np.testing.assert_array_equal(second, [0, 2, 0, 1])  # ids 1 and 3
    np.testing.assert_array_equal(inverse, [2, 1, 2, -1, 3, 1, 0, -1])
    np.testing.assert_array_equal(counts, [2, 2])


def test_an_id_out_of_range_is_found_before_anything_is_requested() -> None:
    params = table("scope/item", 9, 4, use_resource=True)
    bags = IdBags([[1], [2, 9], [10]], [])
    pooled = lookup_group([LookupRequest(params, bags.sparse(), "sum")])
    group = packed(pooled[0].op, [params], [0])
    pattern = r"GroupEmbeddingPrepare: id 9 in row 1 of lookup 0 is not in \[0, 9\).*'scope/item'"
    with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
        in_session(group.look_up())
    update = group_embedding_pack_gradients(
        group.ids, group.attributes, group.placement, [tf.zeros([3, 4])]
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="id 9 in row 1 of lookup 0"):
        in_session(update)


def test_rows_that_do_not_belong_to_the_ids_are_errors() -> None:
    params = table("t", 9, 4, use_resource=True)
    pooled = lookup_group([LookupRequest(params, IdBags([[1, 2], [1]], []).sparse(), "sum")])
    group = packed(pooled[0].op, [params], [0])

    def combine(rows: int, inverse: List[int], counts: List[int]) -> tf.Tensor:
        prepared = PreparedRows([], tf.constant(inverse, tf.int32), tf.constant(counts, tf.int64))
        arguments = (group.ids, group.attributes, group.placement, [4])
        return group_embedding_combine([tf.zeros([rows * 4])], prepared, *arguments)[0]

    good = [0, 1, 0, -1]
    np.testing.assert_array_equal(in_session(combine(2, good, [2])), np.zeros([2, 4]))
    for rows, inverse, counts, message in (
        (2, good[:3], [2], "inverse has 3 entries, need 3 for the ids and 1 for the lookups"),
        (2, [0, 7, 0, -1], [2], "inverse names row 7 of the 2 sent of table 't'"),
        (2, good, [2, 0], "counts has 2 entries, need one for each of the 1 shards"),
        (1, good, [2], "server 0 sent 4 numbers, fewer than the rows that were asked for"),
        (2, good, [-1], "inverse has 4 entries, need 0 for the ids and 0 for the lookups"),
        (1, [], [-1], "server 0 sent 4 numbers, fewer than the rows that were asked for"),
        (2, good, [-2], "fewer than the rows"),
        (2, good, [2**62], "fewer than the rows"),
        (3, good, [2], "server 0 sent 12 numbers, need 8"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            in_session(combine(rows, inverse, counts))


def test_a_placement_that_does_not_fit_is_an_error() -> None:
    params = table("t", 9, 4, use_resource=True)
    pooled = lookup_group([LookupRequest(params, IdBags([[1]], []).sparse(), "sum")])
    group = packed(pooled[0].op, [params], [0])
    changes: List[Tuple[Dict[str, Any], str]] = [
        ({"servers": [1]}, "shard_servers names server 1 of 1"),
        ({"servers": [0, 0]}, "shard_servers has 2 entries, need one for each of the 1 shards"),
        ({"rows": [-1]}, "shard_rows has -1"),
    ]
    for change, message in changes:
        placement = group.placement._replace(**change)
        prepared = group_embedding_prepare(group.ids, group.attributes, placement, [4])
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            in_session(prepared)


def test_a_gather_and_an_update_read_no_whole_table() -> None:
    params = table("t", 100000, 16, use_resource=True)
    pooled = lookup_group([LookupRequest(params, IdBags([[1, 2], [1]], []).sparse(), "sum")])
    group = packed(pooled[0].op, [params], [0])
    results = group.look_up()
    with tf.control_dependencies(results):
        train = group.apply(
            "GradientDescent", [params.handle], [], [tf.constant(0.1)], [tf.ones([2, 16])]
        )
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        session.run([train, *results], options=options, run_metadata=metadata)
    largest = max(
        memory.peak_bytes
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        for memory in node.memory
    )
    assert largest < 100000


def test_an_uninitialized_table_is_named() -> None:
    params = table("item", 9, 4, use_resource=True)
    rows = group_embedding_gather(
        [params.handle], tf.constant([0, 1, 0], tf.int64), ["item"], tf.float32
    )
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="item"):
        session.run(rows)


def test_the_ops_are_loaded_here() -> None:
    assert in_session(ops_loaded())
