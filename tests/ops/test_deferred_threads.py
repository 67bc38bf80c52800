"""Threads that update deferred tables, catch up rows, and read and write them at once."""

from __future__ import annotations

import threading
from typing import Any, Callable, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops.deferred_rows import (
    group_embedding_catch_up,
    group_embedding_catch_up_all,
)
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds, group_embedding_apply
from graph_opt.ops.optimizers import optimizer_specs
from tests.embedding.lookup_groups import table
from tests.ops.deferred_models import (
    ROWS,
    Case,
    Models,
    random_batch,
    reference,
    state_of,
    train,
)
from tests.quick_cases import one_of_each

STEPS = 60
JOIN_SECONDS = 120


def in_threads(works: List[Callable[[int], Any]], until: Callable[[], Any]) -> None:
    """Calls each of the works again and again in a thread of its own, until `until` returns."""
    stop = threading.Event()
    errors: List[BaseException] = []

    def repeat(work: Callable[[int], Any]) -> None:
        turn = 0
        try:
            while not stop.is_set():
                work(turn)
                turn += 1
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=repeat, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    until()
    stop.set()
    for thread in threads:
        thread.join(JOIN_SECONDS)
        assert not thread.is_alive(), "a thread that waits forever"
    assert not errors


def running(session: Any, fetch: Any) -> Callable[[int], Any]:
    """What runs this in a session."""
    return lambda turn: session.run(fetch)


def test_rows_are_caught_up_while_others_train() -> None:
    models = Models(Case())

    with tf.Session() as session:

        def read(turn: int) -> None:
            batch = random_batch(np.random.RandomState(turn), length=8)
            session.run(models.catch_up_rows, models.feed(batch, turn))

        models.start(session)
        train(models, session, range(1))
        in_threads(
            [read, read, running(session, models.catch_up_all)],
            lambda: train(models, session, range(1, 120)),
        )
        models.compare(session, 120)


@pytest.mark.parametrize("use_resource, use_locking", one_of_each([False, True], [False, True]))
def test_threads_that_update_one_table_take_turns(use_resource: bool, use_locking: bool) -> None:
    # Two tables of each op, in one order and the other.
    params = [table(name, ROWS, 3, use_resource) for name in ("a", "b")]
    slots = [
        [
            tf.get_variable(
                "{}_{}".format(slot, i),
                initializer=np.zeros([ROWS, 3], np.float32),
                use_resource=use_resource,
            )
            for i in range(2)
        ]
        for slot in "mv"
    ]
    ids = tf.constant(np.arange(ROWS // 2).reshape(-1, 1))
    gradient = tf.constant(np.random.RandomState(1).randn(ROWS // 2, 3).astype(np.float32))
    empty = tf.zeros([0], tf.int64)
    attributes = GroupAttributes(
        [0, 1], [1, 1], ["a", "b"], ["sum"] * 2, ["dense"] * 2, [False] * 2, [-1] * 2
    )
    updates, catch_up, catch_up_all = [], [], []
    for order in ([0, 1], [1, 0]):
        tables = [reference(params[i]) for i in order]
        of_slots = [reference(slot[i]) for slot in slots for i in order]
        states = [state_of(params[i]) for i in order]
        group = GroupIds([ids] * 2, [empty] * 2, [empty] * 2, [])
        updates.append(
            group_embedding_apply(
                "Adam",
                tables,
                of_slots,
                [
                    tf.constant(value)
                    for value in optimizer_specs()["Adam"].hyperparameters.values()
                ],
                group,
                attributes,
                [gradient] * 2,
                use_locking=use_locking,
                row_states=states,
            )
        )
        catch_up.append(
            group_embedding_catch_up("Adam", tables, of_slots, states, group, attributes)
        )
        catch_up_all.append(
            group_embedding_catch_up_all("Adam", tables, of_slots, states, ["", ""])
        )
    variables = [*params, *slots[0], *slots[1]]
    with tf.control_dependencies(catch_up_all[:1]):
        reads = [tf.reduce_sum(one.read_value()) for one in variables]
    # Takes the lock of a resource exclusively, as restores do.
    writes = [tf.assign_add(one, tf.zeros(one.shape)).op for one in variables if use_resource]
    with tf.Session() as session:

        def update() -> None:
            in_order = threading.Thread(
                target=lambda: [session.run(updates[0]) for _ in range(STEPS)], daemon=True
            )
            in_order.start()
            for _ in range(STEPS):
                session.run(updates[1])
            in_order.join(JOIN_SECONDS)
            assert not in_order.is_alive(), "an update that waits forever"

        results = []
        start = session.run([tf.random.normal([ROWS, 3], seed=3)] * 2)
        for has_threads in (False, True):
            session.run(catch_up_all)
            session.run(tf.global_variables_initializer())
            for one, value in zip(params, start):
                one.load(value, session)
            if has_threads:
                others = [*catch_up, *catch_up_all, reads, writes]
                in_threads([running(session, one) for one in others], update)
            else:
                for _ in range(2 * STEPS):
                    session.run(updates[0])
            session.run(catch_up_all)
            results.append(session.run(variables))
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
