"""Dynamic tables in several parts, each of which may be on another device."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import PartitionedVariable, on_device_of
from graph_opt.dynamic.owners import owners
from graph_opt.dynamic.table_rows import EvictedRows, TableRows
from graph_opt.dynamic.variable import DynamicTableVariable, OfKeys


class PartitionedDynamicTable(PartitionedVariable):
    """A table in parts, which is looked up as one.

    Only the parts are in the graph's collections, have gradients, and are updated and saved.

    Args:
      parts: In order; all of the same options.

    Attributes:
      parts: As given.
      lookup_builder: How group lookups find its rows (`embedding.lookup_builders`).
    """

    lookup_builder = OfKeys

    def __init__(self, parts: Sequence[DynamicTableVariable]) -> None:
        self.parts: List[DynamicTableVariable] = list(parts)
        super().__init__(self.parts[0].table_name, self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        return "<{} {!r} of {} parts>".format(type(self).__name__, self.name, len(self.parts))

    @property
    def initializer(self) -> Any:
        """Initializes all parts."""
        return tf.group(*[part.initializer for part in self.parts])

    @property
    def table_shape(self) -> tf.TensorShape:
        """Of all rows, however many: [None, dim]."""
        return self.parts[0].table_shape

    @property
    def size(self) -> tf.Tensor:
        """Number of rows: an int64 scalar."""
        return tf.add_n([part.size for part in self.parts])

    def is_initialized(self, name: Optional[str] = None) -> tf.Tensor:
        """Whether all parts are."""
        return tf.reduce_all(tf.stack([part.is_initialized() for part in self.parts]), name=name)

    def sparse_read(
        self,
        indices: Any,
        name: Optional[str] = None,
        ev_init_value: Any = None,
        counts: Any = None,
        insert: Any = True,
    ) -> tf.Tensor:
        """See `DynamicTableVariable.sparse_read`; each part is asked for its own keys."""
        first = self.parts[0]
        keys = first.as_keys(indices)
        with tf.name_scope(name, "Gather") as scope, on_device_of(keys):
            if counts is None:
                counts = first.occurrences(keys)
            flat = tf.reshape(keys, [-1])
            owner = owners(flat, len(self.parts), first.owner_rule)
            keys_of = self._divided(flat, owner)
            counts_of = self._divided(_reshaped(counts, [-1]), owner)
            defaults_of = self._divided(_reshaped(ev_init_value, [-1, first.dim]), owner)
            places = self._divided(tf.range(tf.size(flat)), owner)
            rows = [
                part.rows_of_keys(keys_of[number], counts_of[number], defaults_of[number], insert)
                for number, part in enumerate(self.parts)
            ]
            stitched = tf.raw_ops.ParallelDynamicStitch(indices=places, data=rows)
            shape = tf.concat([tf.shape(keys), [first.dim]], 0)
            result = tf.reshape(stitched, shape, name=scope)
            result.set_shape(keys.shape.concatenate([first.dim]))
            return result

    def export(self) -> TableRows:
        """All rows of all parts."""
        return TableRows(*[tf.concat(one, 0) for one in zip(*[p.export() for p in self.parts])])

    def evict(self, step: Any, name: Optional[str] = None) -> EvictedRows:
        """See `DynamicTableVariable`; all parts give up theirs."""
        with tf.name_scope(name, "Evict"):
            evicted = [part.evict(step) for part in self.parts]
            return EvictedRows(*[tf.concat(one, 0) for one in zip(*evicted)])

    def total_shape(self, name: Optional[str] = None) -> tf.Tensor:
        """Number of rows, and their width: int64 [2]."""
        return tf.stack([self.size, tf.constant(self.parts[0].dim, tf.int64)], name=name)

    def frequency(self, keys: Any) -> tf.Tensor:
        """See `DynamicTableVariable`."""
        return self._by_owner(keys, lambda part, part_keys: part.frequency(part_keys))

    def version(self, keys: Any) -> tf.Tensor:
        """See `DynamicTableVariable`."""
        return self._by_owner(keys, lambda part, part_keys: part.version(part_keys))

    def divided(self, slices: tf.IndexedSlices) -> List[tf.IndexedSlices]:
        """IndexedSlices of the whole table as those of its parts, in order."""
        keys = self.parts[0].as_keys(slices.indices)
        owner = owners(keys, len(self.parts), self.parts[0].owner_rule)
        pairs = zip(self._divided(slices.values, owner), self._divided(keys, owner))
        return [tf.IndexedSlices(values, part, slices.dense_shape) for values, part in pairs]

    def _by_owner(self, keys: Any, ask: Callable[[Any, tf.Tensor], tf.Tensor]) -> tf.Tensor:
        keys = self.parts[0].as_keys(keys)
        flat = tf.reshape(keys, [-1])
        owner = owners(flat, len(self.parts), self.parts[0].owner_rule)
        answers = [
            ask(part, part_keys) for part, part_keys in zip(self.parts, self._divided(flat, owner))
        ]
        places = self._divided(tf.range(tf.size(flat)), owner)
        return tf.reshape(tf.dynamic_stitch(places, answers), tf.shape(keys))

    def _divided(self, values: Optional[tf.Tensor], owner: tf.Tensor) -> List[Any]:
        if values is None:
            return [None] * len(self.parts)
        return list(tf.dynamic_partition(values, owner, len(self.parts)))


def _reshaped(values: Any, shape: Sequence[int]) -> Optional[tf.Tensor]:
    return None if values is None else tf.reshape(values, shape)
