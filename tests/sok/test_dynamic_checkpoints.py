"""Checkpoints of dynamic tables that are divided among ranks."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.ops.dynamic_content import assign_rows
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through

KEYS = np.array([0, 1, 2, 5, -3, 2**20 + 1], np.int64)


def keys_of(table: Any) -> np.ndarray:
    """Those that a rank has."""
    return KEYS[table.keyed_rows.owners(KEYS) == table.transport.rank]


def test_all_ranks_save_together_for_any_number_of_ranks(tmp_path: Path) -> None:
    path = str(tmp_path / "model.ckpt")

    def program(transport: Transport, saves: bool) -> Dict[str, List[Any]]:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            modes = {"users": None, "items": "localized:{}".format(transport.size - 1)}
            tables = [
                sok.DynamicVariable(1, initializer="zeros", name=name, mode=mode)
                for name, mode in modes.items()
            ]
            slots = [table.add_slot("Adagrad", 0.5) for table in tables]
            step = tf.train.get_or_create_global_step()
            # A restore takes no other rank, so TensorFlow's saver will do.
            saver: Any = tf.train.Saver() if transport.size == 3 else sok.CheckpointSaver()
            session.run(tf.global_variables_initializer())
            if saves:
                session.run(step.assign(7))
                for number, table in enumerate(tables):
                    values = keys_of(table)[:, None].astype(np.float32) + number
                    session.run(assign_rows(table.handle, tf.constant(keys_of(table)), values))
                saver.save(session, path)
            else:
                saver.restore(session, path)
                assert session.run(step) == 7
            found = {}
            for table, slot in zip(tables, slots):
                rows = session.run(table.export())
                assert sorted(rows.keys) == sorted(keys_of(table))
                assert session.run(slot.export().values).tolist() == [[0.5]] * len(rows.keys)
                found[table.table_key] = sorted(zip(rows.keys, rows.values[:, 0]))
            return found

    for ranks, saves in ((2, True), (3, False), (1, False), (2, False)):
        of_ranks = run_ranks(ranks, functools.partial(program, saves=saves), 60)
        for number, name in enumerate(("users", "items")):
            found = sorted(row for one in of_ranks for row in one[name])
            assert found == [(key, np.float32(key) + number) for key in sorted(KEYS)]


def test_one_rank_does_not_save_the_rows_of_all(tmp_path: Path) -> None:
    def program(transport: Transport) -> None:
        with communicating_through(transport), tf.Graph().as_default(), tf.Session() as session:
            sok.DynamicVariable(1, name="users")
            saver = tf.train.Saver()
            session.run(tf.global_variables_initializer())
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"sok\.CheckpointSaver"):
                saver.save(session, str(tmp_path / "model.ckpt"))

    run_ranks(2, program, 60)
