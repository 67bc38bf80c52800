"""Variables whose rows are those of the keys that came."""

from __future__ import annotations

import itertools
from typing import Any, Callable, ClassVar, Dict, List, NamedTuple, Optional, Sequence, Set, Type

from graph_opt.compat import tf
from graph_opt.compat.eager import is_eager
from graph_opt.compat.resource_variables import (
    ResourceOps,
    VariableOfResource,
    accessed,
    beside,
    on_device_of,
)
from graph_opt.compat.row_number_slots import RowNumbers
from graph_opt.dynamic.object_checkpoints import restore_table, table_tensors
from graph_opt.dynamic.optimizers import train_dynamic_tables, update_by_key
from graph_opt.dynamic.options import Bank, DynamicTableOptions
from graph_opt.dynamic.owners import owners
from graph_opt.dynamic.saving import save_dynamic_tables
from graph_opt.dynamic.scattering import ScatteredRows
from graph_opt.dynamic.table_rows import EvictedRows, TableRows
from graph_opt.dynamic.warm_start import start_from_checkpoints
from graph_opt.embedding.lookup_builders import LookupBuilder, SeveralDevices
from graph_opt.embedding.lookup_ids import ID_DTYPES
from graph_opt.ops import dynamic_content, dynamic_table
from graph_opt.ops.dynamic_checkpoint import StoredSlot
from graph_opt.ops.dynamic_table import BY_KEY


class PartOf(NamedTuple):
    """Which part of a partitioned table a variable is.

    Attributes:
      table_name: Name of the whole table.
      part: Number of the part.
      num_parts: Number of parts.
      owner_rule: Which part has a key (`graph_opt.dynamic.partitioned`).
    """

    table_name: str
    part: int = 0
    num_parts: int = 1
    owner_rule: str = BY_KEY


class OfKeys(SeveralDevices):
    """Group lookups of a dynamic table are TensorFlow's own, which the session fuses."""

    @staticmethod
    def includes(table_devices: Set[str], ids_device: str) -> bool:
        """Devices do not tell: the variable does."""
        return False


class DynamicTableVariable(ScatteredRows, VariableOfResource):
    """A table of a row for each key that came, and of optimizers' slots beside the rows.

    It is looked up by `tf.nn.embedding_lookup`, `tf.gather` and what is made of them, in graphs and
    eagerly. Gradients are IndexedSlices whose indices are keys. Only rows of keys that a batch has
    are updated.

    Args:
      name: Of the variable; made unique in the current name scope.
      dim: Number of columns.
      options: How rows start, come and go.
      bank: Where new rows start as rows of a matrix: makes it, float32 [rows, dim].
      key_dtype: tf.int64 or tf.int32.
      trainable: Whether optimizers update it.
      collections: As for `tf.Variable`.
      part: Of a partitioned table; None for a table that is one variable.

    Attributes:
      dim: Number of columns.
      options: As given.
      key_dtype: As given.
      slots: The optimizers' slots by name.
      parts: The variable itself.
      lookup_builder: How group lookups find its rows (`embedding.lookup_builders`).

    Raises:
      ValueError: `dim`, `key_dtype` or `bank` does not fit.

    Example:
      >>> options = DynamicTableOptions(Drawn("normal", 0.0, 0.01))
      >>> table = DynamicTableVariable("users", 16, options)
      >>> rows = tf.nn.embedding_lookup(table, user_ids)
    """

    lookup_builder: ClassVar[Type[LookupBuilder]] = OfKeys

    def __init__(
        self,
        name: str,
        dim: int,
        options: DynamicTableOptions,
        bank: Optional[Callable[[], Any]] = None,
        key_dtype: Any = tf.int64,
        trainable: bool = True,
        collections: Optional[Sequence[str]] = None,
        part: Optional[PartOf] = None,
    ) -> None:
        train_dynamic_tables()
        self.dim = int(dim)
        self.options = options
        self.key_dtype = tf.as_dtype(key_dtype)
        self.slots: Dict[str, DynamicTableSlot] = {}
        self._slot_names: Set[str] = set()
        self._part: Any = part
        _check(name, self, bank)
        resource = ResourceOps(
            initial=bank,
            initialize=self._initialize,
            is_initialized=dynamic_table.table_is_initialized,
            destroyed_with=dynamic_table.destroyed_with,
            to_tensors=table_tensors,
            from_tensors=restore_table,
        )
        super().__init__(
            name,
            [None, self.dim],
            resource,
            trainable=trainable,
            collections=collections,
        )
        self._part = self._part or PartOf(self.table_key)
        save_dynamic_tables(self.handle)
        start_from_checkpoints()

    @property
    def table_shape(self) -> tf.TensorShape:
        """Of all rows, however many: [None, dim]."""
        return tf.TensorShape([None, self.dim])

    @property
    def table_key(self) -> str:
        """Name of the variable without its output."""
        return self.name.split(":")[0]

    @property
    def table_name(self) -> str:
        """Name of the whole table, also if this is a part of it."""
        return self._part.table_name

    @property
    def part(self) -> int:
        """Number of this part."""
        return self._part.part

    @property
    def num_parts(self) -> int:
        """Number of parts that the table has."""
        return self._part.num_parts

    @property
    def owner_rule(self) -> str:
        """Which part has a key."""
        return self._part.owner_rule

    @property
    def parts(self) -> List[DynamicTableVariable]:
        """The variable itself, as its table's only part."""
        return [self]

    @property
    def size(self) -> tf.Tensor:
        """Number of rows: an int64 scalar."""
        return self.total_shape()[0]

    def total_shape(self, name: Optional[str] = None) -> tf.Tensor:
        """Number of rows, and their width: int64 [2]."""
        with beside(self):
            return dynamic_content.table_size(self.handle, name)

    def sparse_read(
        self,
        indices: Any,
        name: Optional[str] = None,
        ev_init_value: Any = None,
        counts: Any = None,
        insert: Any = True,
    ) -> tf.Tensor:
        """The rows of keys: what `tf.gather` and `tf.nn.embedding_lookup` call.

        Args:
          indices: Keys, of any shape.
          name: Name of the node.
          ev_init_value: None, or [keys, dim]: the first values of new rows.
          counts: None, or for each key how often it occurred, in the shape of `indices`.
          insert: bool. Whether keys without a row get one, rather than read their initial values.

        Returns:
          float32, of the shape of `indices`, and dim.

        Raises:
          TypeError: The keys are not of the table's type.
        """
        with tf.name_scope(name, "Gather") as scope:
            keys = self.as_keys(indices)
            if counts is None:
                counts = self.occurrences(keys)
            return self.rows_of_keys(keys, counts, ev_init_value, insert, scope)

    def rows_of_keys(
        self,
        keys: tf.Tensor,
        counts: Optional[tf.Tensor],
        defaults: Any = None,
        insert: Any = True,
        name: Optional[str] = None,
    ) -> tf.Tensor:
        """As `sparse_read`, on the table's device."""
        accessed(self)
        if counts is not None:
            counts = tf.cast(counts, tf.int64)
        if defaults is not None:
            defaults = tf.reshape(tf.cast(defaults, tf.float32), [-1, self.dim])
        insert = tf.convert_to_tensor(insert)
        with beside(self):
            return dynamic_table.lookup(self.handle, keys, insert, counts, defaults, name)

    def as_keys(self, ids: Any) -> tf.Tensor:
        """Ids as a tensor of keys.

        Raises:
          TypeError: They are no integers, or wider than the table's keys.
        """
        keys = tf.convert_to_tensor(ids)
        if keys.dtype not in ID_DTYPES or keys.dtype.size > self.key_dtype.size:
            raise TypeError(
                "ids of {} are {}, but its keys are {}: cast them before the lookup".format(
                    self.described, keys.dtype.name, self.key_dtype.name
                )
            )
        return keys

    def has_any(self, keys: tf.Tensor) -> tf.Tensor:
        """Whether any of these keys belongs to this part of its table: a bool scalar."""
        return tf.reduce_any(tf.equal(owners(keys, self.num_parts, self.owner_rule), self.part))

    def occurrences(self, keys: tf.Tensor) -> Optional[tf.Tensor]:
        """How often each key occurred before a `tf.unique` whose result the keys are.

        None where the table does not ask, or the keys are others.
        """
        if not self.options.counts_occurrences or is_eager(keys) or keys.op.type != "Unique":
            return None
        with on_device_of(keys):
            return tf.unique_with_counts(keys.op.inputs[0], tf.int64).count

    def add_slot(self, name: str, initial: float = 0.0) -> DynamicTableSlot:
        """The slot of that name, which is made at the first call.

        Args:
          name: Of the slot; the variable's is `<table>/<name>`.
          initial: What the slot has in new rows.
        """
        if name not in self.slots:
            self.slots[name] = DynamicTableSlot(self, name, float(initial))
        return self.slots[name]

    def slot_name(self, name: str) -> str:
        """A name that no slot has yet, as TensorFlow numbers slots: Adam, Adam_1, Adam_2."""
        numbered = ("{}_{}".format(name, number) for number in itertools.count(1))
        taken = self._slot_names.union(self.slots)
        unique = next(one for one in itertools.chain([name], numbered) if one not in taken)
        self._slot_names.add(unique)
        return unique

    def update_rows(self, optimizer: str, slots: Sequence[Any], *values: Any, **named: Any) -> Any:
        """Updates rows by a formula: see `graph_opt.dynamic.optimizers.update_by_key`."""
        return update_by_key(self, optimizer, slots, *values, **named)

    def subtract(self, slices: tf.IndexedSlices, rate: Any) -> Any:
        """Subtracts a multiple of IndexedSlices from the rows of their keys, those that there are.

        Returns:
          In graphs the operation.
        """
        with beside(self):
            return dynamic_table.apply_to_keys(
                "GradientDescent", self.handle, [], [rate], slices.indices, slices.values
            )

    def export(self) -> TableRows:
        """All rows as they are at one moment."""
        with beside(self):
            rows = dynamic_content.export_rows(self.handle)
        return TableRows(rows.keys, rows.values, rows.versions, rows.frequencies)

    def evict(self, step: Any, name: Optional[str] = None) -> EvictedRows:
        """Takes rows by the table's rule, as before a checkpoint is written.

        Args:
          step: Number of the training step.
          name: Name of the node.

        Returns:
          The keys that lost their rows, and these.
        """
        with beside(self):
            return EvictedRows(*dynamic_content.evict_rows(self.handle, step, name))

    def frequency(self, keys: Any) -> tf.Tensor:
        """How often each key was looked up: int64, in the shape of `keys`."""
        return self._metadata(keys).frequencies

    def version(self, keys: Any) -> tf.Tensor:
        """The step of the last update of each key's row, -1 for none: int64, as `keys`."""
        return self._metadata(keys).versions

    def _metadata(self, keys: Any) -> Any:
        keys = tf.cast(self.as_keys(keys), tf.int64)
        with beside(self):
            return dynamic_content.key_metadata(self.handle, keys)

    @property
    def options_json(self) -> str:
        """What ops that make the table are given."""
        return self.options.to_json(self.table_name, self.dim)

    def _initialize(self, handle: tf.Tensor, variable: str, bank: Any, name: str) -> Any:
        bank = tf.zeros([0, self.dim]) if bank is None else bank
        table_name = self._part.table_name if self._part else variable
        options = self.options.to_json(table_name, self.dim)
        return dynamic_table.initialize_table(handle, bank, options, name)


class DynamicTableSlot(VariableOfResource):
    """An optimizer's values beside each row of a table; made by `DynamicTableVariable.add_slot`.

    Attributes:
      table: The table.
      slot_name: Its name among the slots of the table.
      initial: What new rows have.
      stored: How checkpoints have it.
      start: The checkpoint that it starts as, if there is one (`graph_opt.dynamic.warm_start`).
    """

    def __init__(self, table: DynamicTableVariable, slot_name: str, initial: float) -> None:
        self.table = table
        self.slot_name = slot_name
        self.initial = initial
        self.stored = StoredSlot()
        self.start: Any = None
        resource = ResourceOps(
            initial=None,
            initialize=self._initialize,
            is_initialized=dynamic_table.table_is_initialized,
            destroyed_with=dynamic_table.destroyed_with,
            to_tensors=table_tensors,
            from_tensors=restore_table,
        )
        with tf.name_scope(None), beside(table):
            name = "{}/{}".format(table.table_key, slot_name)
            super().__init__(name, [None, table.dim], resource, trainable=False)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.table.dim

    def store_as(self, form: RowNumbers) -> None:
        """Has savers that are made from now on save one number for each row, in this form."""
        self.stored = StoredSlot(form.dtype, 0 if form.like_table else 1)

    @property
    def parts(self) -> List[DynamicTableSlot]:
        """The variable itself."""
        return [self]

    def export(self) -> TableRows:
        """All rows of the slot as they are at one moment."""
        with beside(self.table):
            rows = dynamic_content.export_rows(self.table.handle, [self.handle])
        return TableRows(rows.keys, rows.slot_values[0], rows.versions, rows.frequencies)

    def _initialize(self, handle: tf.Tensor, variable: str, initial: Any, name: str) -> Any:
        table = self.table
        return dynamic_table.initialize_slot(
            table.handle, handle, self.slot_name, self.initial, table.options_json, name
        )


def _check(name: str, table: DynamicTableVariable, bank: Any) -> None:
    if table.dim < 1:
        raise ValueError("table {!r} has {} columns; need 1 or more".format(name, table.dim))
    if table.key_dtype not in ID_DTYPES:
        raise ValueError(
            "table {!r} has keys of {}; need int64 or int32".format(name, table.key_dtype.name)
        )
    if isinstance(table.options.initial, Bank) != (bank is not None):
        raise ValueError("table {!r} needs a bank exactly if its rows start from one".format(name))
