"""Packed lookups and updates of tables in a parameter server process, compared with stock."""

from __future__ import annotations

from itertools import product
from typing import Any, Iterator, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.compat.variables import parts_of
from graph_opt.embedding.group_lookup import LookupRequest, lookup_group
from graph_opt.ops.deferred_rows import (
    group_embedding_catch_up_all,
    group_embedding_catch_up_packed,
    row_state_name,
)
from tests.embedding.lookup_groups import IdBags, random_bags, table
from tests.ops.packed_groups import PackedGroup, packed
from tests.quick_cases import slow_but
from tests.session.parameter_servers import free_addresses, parameter_servers

SERVER = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"
STEPS = 5


@pytest.fixture(scope="module")
def worker() -> Iterator[Any]:
    """A worker in this process; its parameter server has loaded the ops."""
    ps, address = free_addresses(2)
    cluster = {"ps": [ps], "worker": [address]}
    with parameter_servers(cluster, has_ops=[True]):
        yield tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker", task_index=0)


def tables_on_server(use_resource: bool) -> List[Any]:
    with tf.device(SERVER):
        return [
            table("t{}".format(i), 23 + i, 5 + 8 * i, use_resource, partitions=1 + i)
            for i in range(3)
        ]


def loss_of(pooled: List[tf.Tensor]) -> tf.Tensor:
    return tf.reduce_mean(tf.square(tf.concat([tf.tanh(rows) for rows in pooled], 1) - 0.3))


def stock_step(tables: List[Any], bags: List[IdBags]) -> Tuple[tf.Tensor, Any]:
    pooled = [
        tf.nn.safe_embedding_lookup_sparse(
            one, bag.sparse(), None, "mean", partition_strategy="mod"
        )
        for one, bag in zip(tables, bags)
    ]
    loss = loss_of(pooled)
    return loss, tf.train.AdagradOptimizer(0.1).minimize(loss)


def reference(part: Any) -> tf.Tensor:
    return part.handle if hasattr(part, "handle") else part.op.outputs[0]


def group_on_server(tables: List[Any], ids: List[Any]) -> PackedGroup:
    """A packed lookup in these tables, derived from a local lookup in tables like them."""
    parts = [part for one in tables for part in parts_of(one)]
    likenesses = [[tf.zeros(part.shape) for part in parts_of(one)] for one in tables]
    pattern = lookup_group(
        [LookupRequest(table, bags, "mean") for table, bags in zip(likenesses, ids)]
    )
    group = packed(pattern[0].op, parts, [0] * len(parts), lambda server: tf.device(SERVER))
    return group._replace(
        shards=[reference(part) for part in parts], names=[part.op.name for part in parts]
    )


def packed_step(tables: List[Any], bags: List[IdBags], use_resource: bool) -> Tuple[Any, Any]:
    parts = [part for one in tables for part in parts_of(one)]
    group = group_on_server(tables, [bag.sparse() for bag in bags])
    pooled = group.look_up()
    loss = loss_of(pooled)
    with tf.device(SERVER):
        accumulators = [
            tf.get_variable(
                "accumulator{}".format(i),
                part.shape.as_list(),
                initializer=tf.constant_initializer(0.1),
                use_resource=use_resource,
            )
            for i, part in enumerate(parts)
        ]
        numbers = [tf.constant(0.1), tf.constant(0.0)]
    train = group.apply(
        "Adagrad",
        [reference(part) for part in parts],
        [[reference(part) for part in accumulators]],
        numbers,
        tf.gradients(loss, pooled),
    )
    return loss, train


@pytest.mark.parametrize("use_resource", slow_but([False, True], True))
def test_training_on_a_server_equals_stock(worker: Any, use_resource: bool) -> None:
    results = []
    for is_packed in (False, True):
        random = np.random.RandomState(4)
        with tf.Graph().as_default(), tf.device(WORKER):
            tables = tables_on_server(use_resource)
            bags = [random_bags(random, 30, 23) for _ in tables]
            if is_packed:
                loss, train = packed_step(tables, bags, use_resource)
            else:
                loss, train = stock_step(tables, bags)
            parts = [part for one in tables for part in parts_of(one)]
            starts = [
                tf.assign(part, random.randn(*part.shape.as_list()).astype(np.float32))
                for part in parts
            ]
            with tf.Session(worker.target) as session:
                session.run(tf.global_variables_initializer())
                session.run([start.op for start in starts])
                losses = [session.run([loss, train])[0] for _ in range(STEPS)]
                results.append((losses, session.run(parts)))
    (expected_losses, expected), (losses, got) = results
    assert len(set(expected_losses)) == STEPS
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-6)
    for one, other in zip(got, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("use_resource", [False, True])
def test_three_tensors_cross_in_a_step(worker: Any, use_resource: bool) -> None:
    random = np.random.RandomState(4)
    with tf.device(WORKER):
        tables = tables_on_server(use_resource)
        bags = [random_bags(random, 30, 23) for _ in tables]
        loss, train = packed_step(tables, bags, use_resource)
    options = tf.RunOptions(output_partition_graphs=True)
    metadata = tf.RunMetadata()
    with tf.Session(worker.target) as session:
        session.run(tf.global_variables_initializer())
        session.run([loss, train], options=options, run_metadata=metadata)
    received = [
        node.attr["tensor_name"].s.decode()
        for graph in metadata.partition_graphs
        for node in graph.node
        if node.op in ("_Recv", "_HostRecv")
        and node.attr["send_device"].s != node.attr["recv_device"].s
        and node.attr["tensor_type"].type != tf.bool.as_datatype_enum
    ]
    assert len(received) == 3, received


def test_a_malformed_request_names_the_server_s_table(worker: Any) -> None:
    with tf.device(WORKER):
        tables = tables_on_server(use_resource=True)[:1]
        group = group_on_server(tables, [tf.constant([22])])
        placement = group.placement._replace(rows=[99])
        ids = group.ids._replace(ids=[tf.constant([98])])
        pooled = group._replace(placement=placement, ids=ids).look_up()
    with tf.Session(worker.target) as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"row 98 is asked of .*'t0'"):
            session.run(pooled)


@pytest.mark.parametrize(
    "use_resource, pool_on_server",
    slow_but(product([False, True], ["never", "always"]), (True, "always")),
)
def test_deferred_training_on_a_server_equals_adam(
    worker: Any, use_resource: bool, pool_on_server: str
) -> None:
    random = np.random.RandomState(4)
    with tf.device(WORKER):
        ids = [tf.placeholder(tf.int64, [None, 2]) for _ in range(3)]
        stock = tables_on_server(use_resource)
        stock_pooled = [
            tf.reduce_sum(tf.nn.embedding_lookup(one, of, partition_strategy="mod"), 1)
            for one, of in zip(stock, ids)
        ]
        gradients = [tf.constant(random.randn(4, 5 + 8 * i).astype(np.float32)) for i in range(3)]
        adam = tf.train.AdamOptimizer(0.01)
        loss = tf.add_n([tf.reduce_sum(one * of) for one, of in zip(stock_pooled, gradients)])
        train_stock = adam.minimize(loss)
        with tf.variable_scope("deferred"):
            ours = tables_on_server(use_resource)
        parts, stock_parts = ([p for one in of for p in parts_of(one)] for of in (ours, stock))
        with tf.device(SERVER):
            m, v = (
                [
                    tf.get_variable(
                        "{}{}".format(slot, i),
                        initializer=np.zeros(part.shape.as_list(), np.float32),
                        use_resource=use_resource,
                    )
                    for i, part in enumerate(parts)
                ]
                for slot in "mv"
            )
        pattern = lookup_group(
            [
                LookupRequest([tf.zeros(part.shape) for part in parts_of(one)], of, "sum")
                for one, of in zip(ours, ids)
            ]
        )
        group = packed(pattern[0].op, parts, [0] * len(parts), lambda server: tf.device(SERVER))
        group = group._replace(
            shards=[reference(part) for part in parts],
            names=[part.op.name for part in parts],
            pool_on_server=pool_on_server,
        )
        states = [row_state_name(reference(part).op.name) for part in parts]
        slots = [[reference(one) for one in slot] for slot in (m, v)]

        def catch_up(places: List[int], request: tf.Tensor) -> tf.Operation:
            return group_embedding_catch_up_packed(
                "Adam",
                [group.shards[place] for place in places],
                [slot[place] for slot in slots for place in places],
                [states[place] for place in places],
                request,
                [group.names[place] for place in places],
            )

        pooled = group.look_up(catch_up)
        numbers = [tf.constant(number) for number in (0.01, 0.9, 0.999, 1e-8)]
        powers = [tf.placeholder(tf.float32, []) for _ in range(2)]
        train = group.apply("Adam", group.shards, slots, [*numbers, *powers], gradients, states)
        with tf.device(SERVER):
            catch_up_all = group_embedding_catch_up_all(
                "Adam", group.shards, [*slots[0], *slots[1]], states, group.names
            )
    with tf.Session(worker.target) as session:
        session.run(tf.global_variables_initializer())
        session.run([tf.assign(a, b.read_value()).op for a, b in zip(parts, stock_parts)])
        turned = betas = np.array([0.9, 0.999], np.float32)
        for step in range(12):
            feed = {of: random.randint(0, 5 if step % 4 else 23, [4, 2]) for of in ids}
            for one, other in zip(*session.run([pooled, stock_pooled], feed)):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
            feed.update(zip(powers, turned))
            turned = turned * betas  # rounded as TensorFlow's
            session.run([train, train_stock], feed)
        session.run(catch_up_all)
        theirs = [*stock_parts, *(adam.get_slot(p, slot) for slot in "mv" for p in stock_parts)]
        for one, other in zip(*session.run([[*parts, *m, *v], theirs])):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
