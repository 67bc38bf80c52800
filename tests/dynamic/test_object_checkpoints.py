"""`tf.train.Checkpoint` of dynamic tables, eagerly and in graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.ops.dynamic_content import assign_rows
from graph_opt.sharding.initializers import Constant


def test_tables_and_slots_are_saved_and_restored(tmp_path: Path) -> None:
    def made() -> Any:
        table = DynamicTableVariable("table", 2, DynamicTableOptions(Constant(1.0)))
        slot = table.add_slot("m", 0.5)
        return table, slot, tensorflow.train.Checkpoint(table=table, slot=slot)

    with context.eager_mode():
        table, slot, checkpoint = made()
        table.sparse_read(tf.constant([3, -4, 3], tf.int64))
        assign_rows(slot.handle, tf.constant([3], tf.int64), [[7.0, 8.0]])
        path = checkpoint.write(str(tmp_path / "eager"))
        other, other_slot, checkpoint = made()
        other.sparse_read(tf.constant([99, 3], tf.int64))
        checkpoint.read(path).assert_consumed()
        rows = other.export()
        found = dict(zip(rows.keys.numpy().tolist(), rows.freqs.numpy().tolist()))
        assert found == {3: 2, -4: 1}
        rows = other_slot.export()
        slots = dict(zip(rows.keys.numpy().tolist(), rows.values.numpy().tolist()))
        assert slots == {3: [7.0, 8.0], -4: [0.5, 0.5]}
    with tf.Graph().as_default(), tf.Session() as session:
        table, slot, checkpoint = made()
        status = checkpoint.read(path)
        session.run(tf.global_variables_initializer())
        status.assert_consumed().run_restore_ops(session)
        rows, slots_there = session.run([table.export(), slot.export()])
        assert dict(zip(rows.keys.tolist(), rows.freqs.tolist())) == found
        assert dict(zip(slots_there.keys.tolist(), slots_there.values.tolist())) == slots
