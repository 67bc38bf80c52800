"""The ops of dynamic tables in real sessions, compared with models in Python."""

from __future__ import annotations

import gc
import json
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.compat.eager import executing_eagerly
from graph_opt.ops import dynamic_content, dynamic_table
from graph_opt.ops.group_embedding import (
    DENSE,
    GroupAttributes,
    GroupIds,
    group_embedding_apply,
    group_embedding_lookup,
)
from tests.ops.dynamic_tables import ModelOfMomentum, TableUnderTest

DIM = 5
FAR_KEYS = np.array([0, -1, 1, 2**63 - 1, -(2**63), 1000, -7], np.int64)


def bank_of(rows: int = 7, dim: int = DIM) -> np.ndarray:
    return np.random.RandomState(3).uniform(size=[rows, dim]).astype(np.float32)


def metrics(session: tf.Session, table: TableUnderTest) -> Any:
    return json.loads(session.run(dynamic_content.table_metrics(table.handle)))


def test_lookups_updates_and_removals_match_a_dict(fresh_graph: tf.Graph) -> None:
    bank = bank_of()
    model = ModelOfMomentum(bank, 0.5, 0.9)
    table = TableUnderTest("table", DIM, {"momentum": 0.0}, bank)
    keys = tf.placeholder(tf.int64, [None])
    insert = tf.placeholder(tf.bool, [])
    gradients = tf.placeholder(tf.float32, [None, DIM])
    rows = dynamic_table.lookup(table.handle, keys, insert)
    (slices,) = tf.gradients(rows, table.handle, grad_ys=gradients)
    update = table.apply("Momentum", [0.5, 0.9], slices.indices, slices.values)
    erase = dynamic_content.erase_rows(table.handle, keys)
    exported = dynamic_content.export_rows(table.handle, list(table.slots.values()))
    size = dynamic_content.table_size(table.handle)
    random = np.random.RandomState(1)
    some = np.concatenate([FAR_KEYS, random.randint(-40, 40, 60)])
    with tf.Session() as session:
        session.run(table.initializers)
        for _ in range(60):
            drawn = random.choice(some, random.randint(0, 40))
            kind = random.randint(4)
            if kind < 2:
                feeds = {keys: drawn, insert: kind == 0}
                np.testing.assert_array_equal(
                    session.run(rows, feeds), model.lookup(drawn, kind == 0)
                )
            elif kind == 2:
                change = random.normal(size=[len(drawn), DIM]).astype(np.float32)
                session.run(update, {keys: drawn, gradients: change, insert: False})
                model.apply(drawn, change)
            else:
                session.run(erase, {keys: drawn[:3]})
                model.erase(drawn[:3])
        all_rows, count = session.run([exported, size])
        assert metrics(session, table)["holds"] == 0
    assert count.tolist() == [len(model.rows), DIM]
    assert sorted(all_rows.keys.tolist()) == sorted(model.rows)
    for i, key in enumerate(all_rows.keys.tolist()):
        np.testing.assert_allclose(all_rows.values[i], model.rows[key], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            all_rows.slot_values[0][i], model.momentums[key], rtol=1e-5, atol=1e-6
        )


def test_group_ops_take_dynamic_tables_in_parts_beside_static_ones() -> None:
    names = ["part_0", "part_1", "part_2", "alone", "whole"]
    tables = [TableUnderTest(name, DIM, {"momentum": 0.0}, bank_of(5)) for name in names]
    parts, (alone, whole) = tables[:3], tables[3:]
    start = np.random.RandomState(5).normal(size=[20, DIM]).astype(np.float32)
    static = tf.get_variable("static", initializer=start, use_resource=True)
    momentum = tf.get_variable("momentum", initializer=np.zeros_like(start), use_resource=True)
    keys = [[[4, -3, 4], [9, 2**40, -1]], [[7], [-3]], [[1, 1], [9, 2]]]
    ids = [tf.constant(keys[0], tf.int64), tf.constant(keys[1], tf.int64), tf.constant(keys[2])]
    found = dynamic_table.group_dynamic_rows(
        [*[part.handle for part in parts], alone.handle],
        [ids[0], ids[1], ids[0]],
        [0, 0, 1],
        ["parted", "alone"],
        True,
        [3, 1],
        ["key1000", "key1000"],
    )
    nothing = tf.constant([], tf.int64)
    group_ids = GroupIds([*found.rows, ids[2]], [nothing] * 4, [nothing] * 4, [])
    attributes = GroupAttributes(
        lookup_tables=[0, 0, 1, 2],
        table_shards=[3, 1, 1],
        table_names=["parted", "alone", "static"],
        combiners=["sum"] * 4,
        layouts=[DENSE] * 4,
        weighted=[False] * 4,
        default_ids=[-1] * 4,
    )
    handles = [*[part.handle for part in parts], alone.handle, static.handle]
    slots = [part.slots["momentum"] for part in [*parts, alone]] + [momentum.handle]
    pooled = group_embedding_lookup(handles, group_ids, attributes, [tf.float32] * 4)
    gradients = [tf.ones_like(rows) * (1.0 + i) for i, rows in enumerate(pooled)]
    with tf.control_dependencies(pooled):
        update = group_embedding_apply(
            "Momentum", handles, slots, [0.5, 0.9], group_ids, attributes, gradients
        )
    whole_rows = dynamic_table.lookup(whole.handle, ids[0], True)
    with tf.Session() as session:
        session.run([table.initializers for table in tables])
        session.run(tf.global_variables_initializer())
        before, expected = session.run([pooled, whole_rows])
        np.testing.assert_allclose(before[0], expected.sum(axis=1), rtol=1e-6)
        np.testing.assert_allclose(before[2], expected.sum(axis=1), rtol=1e-6)
        np.testing.assert_allclose(before[3], start[np.array(keys[2])].sum(axis=1), rtol=1e-6)
        session.run(update)
        after = session.run(pooled)
        sizes = session.run([dynamic_content.table_size(part.handle)[0] for part in parts])
        in_part = session.run(dynamic_content.export_rows(parts[1].handle)).keys
        assert all(metrics(session, part)["holds"] == 0 for part in [*parts, alone])
    assert sum(sizes) == 6 and sorted(in_part) == [-3, 4, 7]
    # -3 is twice in lookup 1 of the parted table and once in lookup 0: their gradients are 2 and 1.
    np.testing.assert_allclose(after[1][1], before[1][1] - 0.5 * 3, rtol=1e-5)
    np.testing.assert_allclose(after[2], before[2] - 0.5 * 3 * np.array([[5], [3]]), rtol=1e-4)
    np.testing.assert_allclose(after[3][0], before[3][0] - 2 * 0.5 * 8, rtol=1e-4)


def test_rows_are_held_as_long_as_a_tensor_of_their_numbers() -> None:
    table = TableUnderTest("table", DIM, bank=bank_of())
    queue = tf.FIFOQueue(4, [tf.int64])
    keys = tf.placeholder(tf.int64, [None])
    found = dynamic_table.group_dynamic_rows([table.handle], [keys], [0], ["table"], True)
    enqueue = queue.enqueue([tf.reshape(found.rows[0], [-1, 1])])
    taken = tf.reduce_min(queue.dequeue())
    skipped = dynamic_table.group_dynamic_rows(
        [table.handle], [keys], [0], ["table"], True, skip_negative=True
    )
    with tf.Session() as session:
        session.run(table.initializers)
        for first in (10, 20):
            session.run(enqueue, {keys: [first, first + 1]})
        assert metrics(session, table)["holds"] == 2
        for holds in (1, 0):
            session.run(taken.op)
            assert metrics(session, table)["holds"] == holds
        rows, below = session.run(skipped, {keys: [-5, 10, -1]})
        assert rows[0][0] == rows[0][2] == -1 and 0 < rows[0][1] < below[0]
        assert session.run(dynamic_content.table_size(table.handle))[0] == 4


def test_initializers_run_in_any_order_and_again() -> None:
    table = TableUnderTest("table", DIM, {"momentum": 0.25}, bank_of())
    same_name = TableUnderTest("table", DIM + 1, {"momentum": 0.5}, bank_of(3, DIM + 1))
    is_initialized = dynamic_table.table_is_initialized(table.handle)
    slot_is = dynamic_table.table_is_initialized(table.slots["momentum"])
    rows = dynamic_table.lookup(table.handle, tf.constant([1, 2, 9]), True)
    size = dynamic_content.table_size(table.handle)
    slots = dynamic_content.export_rows(table.handle, list(table.slots.values())).slot_values
    with tf.Session() as session:
        assert not session.run(is_initialized)
        with pytest.raises(tf.errors.FailedPreconditionError, match="'table' is not initialized"):
            session.run(rows)
        session.run(table.slot_initializers)
        assert not session.run(is_initialized)
        session.run(table.initializer)
        assert session.run([is_initialized, slot_is]) == [True, True]
        session.run(rows)
        assert session.run([size, slots])[0].tolist() == [3, DIM]
        assign = dynamic_content.assign_rows(
            table.slots["momentum"], tf.constant([2, 77], tf.int64), tf.ones([2, DIM]), insert=False
        )
        session.run(assign)
        assert sorted(session.run(slots)[0][:, 0]) == [0.25, 0.25, 1.0]
        session.run(table.slot_initializers)  # resets the slot alone
        assert session.run([size, slots])[1][0].tolist() == [[0.25] * DIM] * 3
        session.run(table.initializer)  # takes the rows, too
        assert session.run(size).tolist() == [0, DIM]
        session.run(same_name.initializers)  # of a script that has changed
        assert session.run(size).tolist() == [0, DIM + 1]
        session.run(dynamic_table.lookup(same_name.handle, tf.constant([4]), True))
        session.run(same_name.initializer)
        assert session.run(dynamic_content.table_size(same_name.handle)).tolist() == [0, DIM + 1]
        with tf.Session(graph=session.graph) as other:  # tables are a session's own
            assert not other.run(is_initialized)


def test_a_static_variable_of_the_name_gives_way() -> None:
    table = TableUnderTest("table", DIM, bank=bank_of())
    assign = tf.raw_ops.AssignVariableOp(resource=table.handle, value=tf.zeros([3, DIM]))
    nothing = tf.constant([], tf.int64)
    found = dynamic_table.group_dynamic_rows(
        [table.handle], [tf.constant([2**50])], [0], ["table"], True
    )
    attributes = GroupAttributes([0], [1], ["table"], ["sum"], [DENSE], [False], [-1])
    (pooled,) = group_embedding_lookup(
        [table.handle], GroupIds(found.rows, [nothing], [nothing], []), attributes, [tf.float32]
    )
    with tf.Session() as session:
        session.run(assign)
        session.run(table.initializers)
        np.testing.assert_array_equal(session.run(pooled), bank_of()[[2**50 % 7]])


def test_contents_policies_and_step() -> None:
    options: Dict[str, Any] = {
        "initial": {"kind": "constant", "value": 0.5},
        "no_permission": -2.0,
        "admission": {"kind": "counter", "filter_freq": 3},
        "eviction": {"kind": "steps_to_live", "steps_to_live": 10},
    }
    table = TableUnderTest("table", DIM, {"momentum": 0.0}, **options)
    keys = tf.constant([5, 6], tf.int64)
    rows = dynamic_table.lookup(table.handle, keys, True, counts=tf.constant([2, 1], tf.int64))
    update = table.apply("Momentum", [1.0, 0.0], keys, tf.ones([2, DIM]))
    step = tf.placeholder(tf.int64, [])
    set_step = dynamic_table.set_step([table.handle], step)
    known = dynamic_content.key_metadata(table.handle, keys)
    filtered = dynamic_content.export_filtered(table.handle)
    evicted = dynamic_content.evict_rows(table.handle, step)
    imported = dynamic_content.import_rows(
        table.handle,
        tf.constant([5, 8], tf.int64),
        tf.constant([[3.0] * DIM, [4.0] * DIM]),
        list(table.slots.values()),
        [tf.constant([[1.0] * DIM, [2.0] * DIM])],
        tf.constant([11, 12], tf.int64),
        tf.constant([100, 200], tf.int64),
    )
    refiltered = dynamic_content.import_filtered(
        table.handle, tf.constant([6], tf.int64), tf.constant([2], tf.int64)
    )
    exported = dynamic_content.export_rows(table.handle, list(table.slots.values()))
    with tf.Session() as session:
        session.run(table.initializers)
        assert session.run(rows)[:, 0].tolist() == [-2.0, -2.0]
        assert session.run(filtered).frequencies.tolist() in ([2, 1], [1, 2])
        assert session.run(rows)[:, 0].tolist() == [0.5, -2.0]
        session.run(set_step, {step: 7})
        session.run(update)
        assert session.run(rows)[:, 0].tolist() == [-0.5, 0.5]
        frequencies, versions = session.run(known)
        assert frequencies.tolist() == [6, 3] and versions.tolist() == [7, -1]
        session.run(dynamic_content.erase_rows(table.handle, tf.constant([6], tf.int64)))
        session.run(refiltered)
        assert session.run(filtered).keys.tolist() == [6]
        assert session.run(evicted, {step: 17})[0].tolist() == []
        gone, values = session.run(evicted, {step: 18})
        assert gone.tolist() == [5] and values.tolist() == [[-0.5] * DIM]
        assert metrics(session, table)["evicted"] == 1
        session.run(imported)
        held = session.run(exported)
        order = np.argsort(held.keys)
        assert held.keys[order].tolist() == [5, 8]
        assert held.values[order][:, 0].tolist() == [3.0, 4.0]
        assert held.slot_values[0][order][:, 0].tolist() == [1.0, 2.0]
        assert held.frequencies[order].tolist() == [11, 12]
        assert held.versions[order].tolist() == [100, 200]
        one = session.run(dynamic_content.export_rows(table.handle, first=1, count=5))
        assert one.keys.tolist() == held.keys[1:].tolist()
        session.run(dynamic_content.compact(table.handle))


def test_a_full_table_hands_out_what_it_gives_up() -> None:
    table = TableUnderTest("table", DIM, bank=bank_of(), capacity=3)
    keys = tf.placeholder(tf.int64, [None])
    found = dynamic_table.lookup_and_evict(table.handle, keys, True)
    with tf.Session() as session:
        session.run(table.initializers)
        for key in (1, 2, 3):
            assert session.run(found, {keys: [key]}).evicted_keys.tolist() == []
        given_up = session.run(found, {keys: [4]})
        assert given_up.evicted_keys.tolist() == [1]
        np.testing.assert_array_equal(given_up.evicted_values, bank_of()[[1]])
        assert session.run(dynamic_content.table_size(table.handle))[0] == 3


def test_defaults_given_with_keys() -> None:
    table = TableUnderTest("table", DIM, bank=bank_of())
    keys = tf.constant([[1, 2]])
    ones = tf.ones([2, DIM])
    read = dynamic_table.lookup(table.handle, keys, False, defaults=ones)
    made = dynamic_table.lookup(table.handle, keys[:, :1], True, defaults=ones[:1])
    with tf.Session() as session:
        session.run(table.initializers)
        np.testing.assert_array_equal(session.run(read), np.ones([1, 2, DIM]))
        np.testing.assert_array_equal(session.run(made), np.ones([1, 1, DIM]))
        session.run(table.apply("GradientDescent", [1.0], keys[0, :1], ones[:1]))
        np.testing.assert_array_equal(session.run(read)[0, :, 0], [0, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"no_permission": "none"}, "'no_permission' is .*none.*need a number"),
        ({"width": 3}, "there is no option 'width'"),
        ({"initial": {"kind": "gamma"}}, "'initial'.*'kind' is .*gamma.*need bank"),
        ({"admission": {"kind": "bloom"}}, "'expected_keys' is left out; need a positive"),
        ({"stripes": 5}, "'stripes' is .*need a power of two"),
        ({"capacity": "many"}, "'capacity' is .*many.*need a number"),
        ({"limit": {"rows": 0}}, "'rows' is .*0.*need a positive number"),
        ({"limit": {"rows": 9}, "capacity": 9}, "'limit' is .*need none where .* a capacity"),
    ],
)
def test_options_that_are_wrong_are_named(options: Any, message: str) -> None:
    table = TableUnderTest("table", DIM, **options)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(table.initializers)


def test_inputs_that_do_not_fit_are_named() -> None:
    table = TableUnderTest("table", DIM, {"momentum": 0.0}, bank_of())
    other = TableUnderTest("other", DIM, {"momentum": 0.0}, bank_of())
    keys = tf.constant([1, 2], tf.int64)
    rows = tf.ones([2, DIM])
    foreign = list(other.slots.values())
    faults: List[Any] = [
        (dynamic_table.lookup(table.handle, keys, True, counts=keys[:1]), "1 counts for 2 keys"),
        (dynamic_table.lookup(table.handle, keys, True, defaults=rows[:1]), "initial values of 2"),
        (dynamic_table.lookup(table.slots["momentum"], keys, True), "is a slot of a dynamic table"),
        (
            dynamic_table.apply_to_keys("Momentum", table.handle, foreign, [1, 1], keys, rows),
            "'other/momentum' is not a slot of dynamic table 'table'",
        ),
        (table.apply("Momentum", [1, 1], keys, rows[:1]), r"need \[n\] and \[n, 5\]"),
        (dynamic_content.assign_rows(table.handle, keys, rows[:1]), "values have shape"),
        (
            dynamic_content.export_rows(table.handle, first=keys),
            r"first has shape \[2\]; need \[\]",
        ),
        (dynamic_content.export_rows(table.handle, count=keys[:0]), r"count has shape \[0\]"),
        (dynamic_content.evict_rows(table.handle, keys[:0]), r"step has shape \[0\]; need \[\]"),
    ]
    with tf.Session() as session:
        session.run([table.initializers, other.initializers])
        for wrong, message in faults:
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(wrong)


def test_tapes_differentiate_lookups_and_owners_take_tables_with_them() -> None:
    class Owner:
        pass

    with executing_eagerly():
        bank = bank_of()
        handle = tf.raw_ops.VarHandleOp(
            dtype=tf.float32, shape=[None, DIM], shared_name="eager_table", name="eager_table"
        )
        owner = Owner()
        dynamic_table.destroyed_with(owner, handle)
        options = json.dumps({"dim": DIM, "initial": {"kind": "bank"}})
        dynamic_table.initialize_table(handle, bank, options)
        keys = tf.constant([[3, 4], [3, 11]], tf.int32)
        with tf.GradientTape() as tape:
            tape.watch(handle)
            rows = dynamic_table.lookup(handle, keys, True)
            loss = tf.reduce_sum(rows * rows)
        slices = tape.gradient(loss, handle)
        assert slices.indices.numpy().tolist() == [3, 4, 3, 11]
        np.testing.assert_allclose(slices.values.numpy(), 2 * bank[[3, 4, 3, 4]])
        dynamic_table.apply_to_keys(
            "GradientDescent", handle, [], [0.5], slices.indices, slices.values
        )
        updated = dynamic_table.lookup(handle, [4, 3], False).numpy()
        np.testing.assert_allclose(updated, [bank[4] * 0, -bank[3]], atol=1e-6)
        assert dynamic_table.table_is_initialized(handle).numpy()
        del owner
        gc.collect()
        assert not dynamic_table.table_is_initialized(handle).numpy()
