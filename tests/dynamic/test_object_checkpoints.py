"""`tf.train.Checkpoint` of dynamic tables, eagerly and in graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.dynamic.options import CounterAdmission, DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.ops.dynamic_content import assign_rows
from graph_opt.sharding.initializers import Constant


def test_tables_and_slots_are_saved_and_restored(tmp_path: Path) -> None:
    def made() -> Any:
        table = DynamicTableVariable(
            "table", 2, DynamicTableOptions(Constant(1.0), record_frequency=True)
        )
        slot = table.add_slot("m", 0.5)
        return table, slot, tensorflow.train.Checkpoint(table=table, slot=slot)

    with context.eager_mode():
        table, slot, checkpoint = made()
        table.sparse_read(tf.constant([3, -4, 3], tf.int64))
        assign_rows(slot.handle, tf.constant([3], tf.int64), [[7.0, 8.0]])
        path = checkpoint.save(str(tmp_path / "eager"))
        other, other_slot, checkpoint = made()
        other.sparse_read(tf.constant([99, 3], tf.int64))
        checkpoint.restore(path).assert_consumed()
        rows = other.export()
        found = dict(zip(rows.keys.numpy().tolist(), rows.freqs.numpy().tolist()))
        assert found == {3: 2, -4: 1}
        rows = other_slot.export()
        slots = dict(zip(rows.keys.numpy().tolist(), rows.values.numpy().tolist()))
        assert slots == {3: [7.0, 8.0], -4: [0.5, 0.5]}
    with tf.Graph().as_default(), tf.Session() as session:
        table, slot, checkpoint = made()
        status = checkpoint.restore(path)
        session.run(tf.global_variables_initializer())
        status.assert_consumed().run_restore_ops(session)
        rows, slots_there = session.run([table.export(), slot.export()])
        assert dict(zip(rows.keys.tolist(), rows.freqs.tolist())) == found
        assert dict(zip(slots_there.keys.tolist(), slots_there.values.tolist())) == slots


def test_keys_that_a_filter_counts_are_saved_and_restored(tmp_path: Path) -> None:
    options = DynamicTableOptions(Constant(1.0), admission=CounterAdmission(2))
    with context.eager_mode():
        tables = [DynamicTableVariable("table", 2, options) for _ in range(2)]
        for table, keys in zip(tables, ([3, -4, 3], [99, 3, 5, 5])):
            table.sparse_read(tf.constant(keys, tf.int64))
        checkpoints = [tensorflow.train.Checkpoint(table=table) for table in tables]
        checkpoints[1].restore(checkpoints[0].save(str(tmp_path / "model"))).assert_consumed()
        frequencies = tables[1].frequency(tf.constant([3, -4, 99, 5], tf.int64))
        assert frequencies.numpy().tolist() == [2, 1, 0, 0]
        tables[1].sparse_read(tf.constant([-4, 99], tf.int64))
        assert sorted(tables[1].export().keys.numpy()) == [-4, 3]
