"""Dynamic tables for tests of checkpoints: rows, slots, and what sessions find in them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.partitioned import PartitionedDynamicTable
from graph_opt.dynamic.variable import DynamicTableVariable, PartOf
from graph_opt.ops.dynamic_table import BY_KEY_1000
from graph_opt.sharding.initializers import Constant
from tests.plain_sessions import plain_session

WIDTH = 2
KEYS = [3, 1003, -7, 2**40 + 1, 999, 12, 5007, -2_000]


class Model:
    """A table with a slot, in one part or several, trained one key at a time.

    Args:
      parts: Number of parts.
      options: Of the table.
      slots: Whether it has a slot.
      bank: Makes where its rows start, if they do so from a matrix.
      exports: Whether the graph has nodes for `contents`.
    """

    def __init__(
        self,
        parts: int = 1,
        options: Optional[DynamicTableOptions] = None,
        slots: bool = True,
        bank: Any = None,
        exports: bool = True,
    ) -> None:
        options = options or DynamicTableOptions(Constant(0.5))
        self.parts = [
            DynamicTableVariable(
                "emb" if parts == 1 else "emb/part_{}".format(number),
                WIDTH,
                options,
                bank,
                part=None if parts == 1 else PartOf("emb", number, parts, BY_KEY_1000),
            )
            for number in range(parts)
        ]
        self.table: Any = self.parts[0] if parts == 1 else PartitionedDynamicTable(self.parts)
        self.step = tf.train.get_or_create_global_step()
        self.keys = tf.placeholder(tf.int64, [None])
        self.rows = tf.nn.embedding_lookup(self.table, self.keys)
        self.read = self.table.sparse_read(self.keys, insert=False)
        optimizer = tf.train.AdagradOptimizer(0.5, 0.1)
        loss = tf.reduce_sum(self.rows)
        self.train = optimizer.minimize(loss, self.step, self.parts) if slots else tf.no_op()
        self.slots = [optimizer.get_slot(part, "accumulator") for part in self.parts if slots]
        self.exported = [part.export() for part in self.parts if exports]
        self.exported_slots = [slot.export().values for slot in self.slots if exports]
        self.initialize = tf.global_variables_initializer()

    def contents(self, session: tf.Session) -> Dict[int, List[Any]]:
        """What the table has of each key: row, slot, version and frequency."""
        found: Dict[int, List[Any]] = {}
        slots = session.run(self.exported_slots)
        for number, part in enumerate(session.run(self.exported)):
            slot = slots[number] if slots else part.values
            for key, *rest in zip(part.keys, part.values, slot, part.versions, part.freqs):
                found[int(key)] = [np.asarray(one).tolist() for one in rest]
        return found

    def train_on(self, session: tf.Session, keys: Sequence[int]) -> None:
        session.run(self.train, {self.keys: keys})


def saved_by(folder: Any, parts: int = 1, **named: Any) -> Any:
    """A checkpoint of a trained model, and what it has."""
    folder.mkdir(exist_ok=True)
    with tf.Graph().as_default(), plain_session() as session:
        model = Model(parts, **named)
        saver = tf.train.Saver(sharded=parts > 1)
        session.run(model.initialize)
        for keys in (KEYS, KEYS[:3], KEYS[2:5]):
            model.train_on(session, keys)
        path = saver.save(session, str(folder / "model.ckpt"), global_step=model.step)
        return path, model.contents(session)
