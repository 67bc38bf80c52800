"""An error of one rank is an error of all, in the same step, with the rank and the cause."""

from __future__ import annotations

import time
from typing import Any, Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.passes.fused_models import config
from tests.quick_cases import slow_but
from tests.sharding.guarded_model import ROWS, build, table_by_key, torn

FAILS = 1  # the rank that does


def on_ranks(size: int, work: Callable[[InProcessTransport], Any]) -> List[Any]:
    def with_graph(transport: InProcessTransport) -> Any:
        with communicating_through(transport), tf.Graph().as_default():
            return work(transport)

    return run_ranks(size, with_graph, 60)


def error_of(run: Callable[[], Any]) -> tf.errors.OpError:
    with pytest.raises(tf.errors.OpError) as raised:
        run()
    return raised.value


def test_a_step_that_fails_before_it_sends_fails_on_all_ranks_which_then_go_on() -> None:
    def work(transport: InProcessTransport) -> Any:
        raw = tf.placeholder(tf.int64, [None, 2])
        fails = tf.placeholder_with_default(False, [])
        checked = tf.py_func(torn, [raw, fails, "early"], tf.int64)
        checked.set_shape([None, 2])
        model = build(checked)
        mine = transport.rank == FAILS
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())

            def step(feeds: Any) -> Any:
                return session.run([model.train, model.total], feeds)[1]

            bad_id = error_of(lambda: step({raw: [[0, 99 if mine else 1]]}))
            after = step({raw: [[0, 1]] * (transport.rank + 1)})
            bad_record = error_of(lambda: step({raw: [[0, 1]], fails: mine}))
            return bad_id, bad_record, [after, step({raw: [[3, 4]]})]

    for rank, (bad_id, bad_record, totals) in enumerate(on_ranks(3, work)):
        assert isinstance(bad_id, tf.errors.InvalidArgumentError)
        assert "99" in bad_id.message and "table" in bad_id.message
        assert isinstance(bad_record, tf.errors.InvalidArgumentError)
        assert "ValueError: record 17 is torn (early)" in bad_record.message
        for error in (bad_id, bad_record):
            assert ("rank 1: " in error.message) == (rank != FAILS)
        assert totals == [4.0 * (rank + 1), 4.0]


def test_a_rank_that_fails_before_lookups_that_follow_from_lookups_tells_of_it_once() -> None:
    def work(transport: InProcessTransport) -> Any:
        raw = tf.placeholder(tf.int64, [None, 2])
        fails = tf.placeholder_with_default(False, [])
        checked = tf.py_func(torn, [raw, fails, "early"], tf.int64)
        checked.set_shape([None, 2])
        total = build(tf.cast(tf.expand_dims(build(checked).total, 0), tf.int64)[:, None]).total
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            feeds = {raw: [[0, 1]], fails: transport.rank == FAILS}
            error = error_of(lambda: session.run(total, feeds))
            return error.message, session.run(total, {raw: [[0, 1]]})

    for message, total in on_ranks(2, work):
        assert "ValueError: record 17 is torn (early)" in message
        assert total == 2.0


def test_a_rank_that_others_wait_for_at_another_message_ends_the_group() -> None:
    def work(transport: InProcessTransport) -> Any:
        raw = tf.placeholder(tf.int64, [None, 2])
        checked = tf.py_func(torn, [raw, transport.rank == FAILS, "early"], tf.int64)
        checked.set_shape([None, 2])
        examples = transport.all_reduce(tf.size(checked), "sum", "examples")
        total = build(checked).total
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return error_of(lambda: session.run([total, examples], {raw: [[0, 1]]})).message

    messages = on_ranks(2, work)
    assert messages[0].startswith("rank 1 failed: InvalidArgumentError: ValueError: record 17")
    assert "ValueError: record 17 is torn (early)" in messages[FAILS]


@pytest.mark.parametrize("batches", [(4, 2), (3, 3)])
@pytest.mark.parametrize("optimized", [False, True])
def test_input_ends_on_all_ranks_whatever_other_message_they_wait_at(
    batches: Any, optimized: bool
) -> None:
    def work(transport: InProcessTransport) -> Any:
        dataset = tf.data.Dataset.from_tensors(np.array([[0, 1]])).repeat(batches[transport.rank])
        iterator = tf.data.make_initializable_iterator(dataset)
        ids = iterator.get_next()
        examples = transport.all_reduce(tf.reduce_sum(ids), "sum", "examples")
        fetches = [build(ids).train, examples]
        ends = []
        with graph_opt.Session(config=config()) if optimized else tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run(iterator.initializer)
                steps = 0
                with pytest.raises(tf.errors.OpError) as ended:
                    while True:
                        assert session.run(fetches)[1] == 2
                        steps += 1
                ends.append((steps, type(ended.value), str(ended.value.message)))
        return ends

    for first, second in on_ranks(2, work):
        assert first[:2] == (min(batches), tf.errors.OutOfRangeError)
        if optimized or batches[0] == batches[1]:
            assert second[:2] == first[:2]
        else:
            assert second[:2] == (0, tf.errors.UnknownError)
            assert "rank 1 has no input left, and others may wait for it at 'examples'" in second[2]


def test_a_step_that_fails_later_ends_the_group_with_its_cause() -> None:
    def work(transport: InProcessTransport) -> Any:
        ids = tf.placeholder(tf.int64, [None, 2])
        model = build(ids)
        mine = transport.rank == FAILS
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(model.train, {ids: [[0, 1]]})
            feeds = {ids: [[0, 1]], model.fail_late: mine}
            first = error_of(lambda: session.run(model.train, feeds))
            return first, error_of(lambda: session.run(model.train, {ids: [[0, 1]]}))

    for rank, errors in enumerate(on_ranks(3, work)):
        for error in errors[:1] if rank == FAILS else errors:
            assert isinstance(error, tf.errors.InvalidArgumentError)
            assert "ValueError: record 17 is torn (late)" in error.message
            if rank != FAILS:
                assert error.message.startswith("rank 1 failed: InvalidArgumentError: ")


def test_a_step_that_fails_when_all_is_sent_ends_the_next_step_of_the_others() -> None:
    def work(transport: InProcessTransport) -> Any:
        model = build(tf.constant([[0, 1]], tf.int64))
        fails = tf.placeholder_with_default(False, [])
        with tf.control_dependencies([model.train]):
            step = tf.group(tf.py_func(torn, [model.total, fails, "last"], tf.float32))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(step)
            feeds = {fails: transport.rank == FAILS}
            return error_of(lambda: [session.run(step, feeds) for _ in range(2)])

    for rank, error in enumerate(on_ranks(3, work)):
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert "ValueError: record 17 is torn (last)" in error.message
        assert error.message.startswith("rank 1 failed: ") == (rank != FAILS)


@pytest.mark.parametrize(("by_key", "compiled"), [(False, False), (True, False), (False, True)])
def test_input_that_ends_on_one_rank_ends_the_epoch_on_all(by_key: bool, compiled: bool) -> None:
    def work(transport: InProcessTransport) -> Any:
        batches = 2 if transport.rank == FAILS else 4
        dataset = tf.data.Dataset.from_tensors(np.array([[0, 1]])).repeat(batches)
        iterator = tf.data.make_initializable_iterator(dataset)
        model = build(iterator.get_next(), by_key=by_key)
        steps = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            step = lambda: session.run(model.train)  # noqa: E731
            step = session.make_callable(model.train) if compiled else step
            for _ in range(2):
                session.run(iterator.initializer)
                steps.append(0)
                with pytest.raises(tf.errors.OutOfRangeError):
                    while True:
                        step()
                        steps[-1] += 1
        return steps

    assert on_ranks(3, work) == [[2, 2]] * 3


def test_monitored_sessions_end_together() -> None:
    def work(transport: InProcessTransport) -> Any:
        batches = 3 if transport.rank == FAILS else 5
        dataset = tf.data.Dataset.from_tensors(np.array([[0, 1]])).repeat(batches)
        model = build(tf.data.make_one_shot_iterator(dataset).get_next())
        tf.train.get_or_create_global_step()
        steps = 0
        with tf.train.MonitoredTrainingSession() as session:
            while not session.should_stop():
                session.run(model.train)
                steps += 1
        with tf.train.MonitoredTrainingSession() as session:
            feeds = {model.fail_late: transport.rank == FAILS}
            error = error_of(lambda: session.run(model.train, feeds))
        return steps, error.message

    for rank, (steps, message) in enumerate(on_ranks(2, work)):
        assert steps == 3
        assert "record 17 is torn" in message
        assert message.startswith("rank 1 failed") == (rank != FAILS)


def test_ranks_that_ask_by_key_agree_on_errors_and_go_on() -> None:
    def work(transport: InProcessTransport) -> Any:
        raw = tf.placeholder(tf.int64, [None, 2])
        fails = tf.placeholder_with_default(False, [])
        checked = tf.py_func(torn, [raw, fails, "early"], tf.int64)
        checked.set_shape([None, 2])
        model = build(checked, by_key=True)
        mine = transport.rank == FAILS
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())

            def step(feeds: Any) -> Any:
                return session.run([model.train, model.total], feeds)[1]

            first = step({raw: [[7, -(2**40)]]})
            # Its new keys get no rows.
            error = error_of(lambda: step({raw: [[1, 2]] * (2 * ROWS), fails: mine}))
            number = model.table.keyed_rows.num_rows()
            seen = session.run(number), step({raw: [[5, 5]] * (transport.rank + 1)})
            late = error_of(lambda: step({raw: [[0, 1]], model.fail_late: mine}))
            return first, error, seen, late

    ranks = on_ranks(3, work)
    for rank, (first, error, seen, late) in enumerate(ranks):
        assert first == 4.0 and seen[1] == 4.0 * (rank + 1)
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert "ValueError: record 17 is torn (early)" in error.message
        assert ("rank 1: " in error.message) == (rank != FAILS)
        assert late.message.startswith("rank 1 failed: ") == (rank != FAILS)
    assert sum(seen[0] for _, _, seen, _ in ranks) == 2


def test_exchanges_of_one_step_fail_together_and_go_on() -> None:
    def work(transport: InProcessTransport) -> Any:
        raw = tf.placeholder(tf.int64, [None, 2])
        fails = tf.placeholder_with_default(False, [])
        checked = tf.py_func(torn, [raw, fails, "early"], tf.int64)
        checked.set_shape([None, 2])
        bags = tf.RaggedTensor.from_tensor(checked)
        # Each rank asks for something else last.
        late = tf.py_func(slowly, [bags.flat_values], tf.int64)
        late.set_shape([None])
        tables = [table_by_key("ones") for _ in range(3)]
        tables += [sok.Variable(tf.ones([ROWS, 2], dtype)) for dtype in (tf.float32, tf.float16)]
        ids = [bags] * len(tables)
        ids[transport.rank] = ids[transport.rank - 2] = bags.with_flat_values(late)
        pooled = sok.lookup_sparse(tables, ids, combiners=["sum"] * len(tables))
        total = tf.add_n([tf.reduce_sum(tf.cast(one, tf.float32)) for one in pooled])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())

            def step(number: int) -> Any:
                feeds = {raw: [[0, 1]], fails: number % 3 == transport.rank}
                error = error_of(lambda: session.run(total, feeds))
                return error.message, session.run(total, {raw: [[0, 1]]})

            return [step(number) for number in range(4)]

    for rank, steps in enumerate(on_ranks(3, work)):
        for number, (message, total) in enumerate(steps):
            assert total == 20.0
            assert "ValueError: record 17 is torn (early)" in message
            assert ("rank {}: ".format(number % 3) in message) == (number % 3 != rank)


@pytest.mark.parametrize("by_key", slow_but([False, True], True))
def test_inputs_of_a_step_that_end_apart_end_it_on_all_ranks(by_key: bool) -> None:
    def work(transport: InProcessTransport) -> Any:
        row = tf.data.Dataset.from_tensors(np.array([[0, 1]]))
        # Nothing comes of it, which is known only after everything else that a step may do by then.
        end = row.map(lambda ids: tf.py_func(slowly, [ids], tf.int64)).filter(lambda _: False)
        inputs = [row.repeat(4), row.repeat(2 + transport.rank).concatenate(end)]
        iterators = [tf.data.make_initializable_iterator(one) for one in inputs]
        ids = [tf.ensure_shape(iterator.get_next(), [None, 2]) for iterator in iterators]
        total = tf.add_n([build(one, by_key=by_key).total for one in ids])
        steps = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(2):
                session.run([iterator.initializer for iterator in iterators])
                steps.append(0)
                with pytest.raises(tf.errors.OutOfRangeError):
                    while True:
                        session.run(total)
                        steps[-1] += 1
        return steps

    assert on_ranks(2, work) == [[2, 2]] * 2


def slowly(values: Any) -> Any:
    """For `tf.py_func`: the values, after everything else that a step may do by then."""
    time.sleep(0.05)
    return values


def test_ranks_that_look_up_other_tables_by_key_are_told() -> None:
    def work(transport: InProcessTransport) -> Any:
        tables = [table_by_key("ones", width) for width in (2, 3)]
        asked = tables[int(transport.rank == FAILS)]
        rows = sok.all2all_dense_embedding(asked, tf.constant([4], tf.int64))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return error_of(lambda: session.run(rows)).message

    for message in on_ranks(2, work):
        assert "tables of lookup 0: " in message and "EmbeddingVariable_1" in message
