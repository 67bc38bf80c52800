"""Builds the lookups of a group, as where its tables are requires."""

from __future__ import annotations

import abc
import contextlib
from typing import (
    Any,
    ClassVar,
    Dict,
    Hashable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
)

from graph_opt.compat import tf
from graph_opt.embedding.marked_tables import is_to_be_sharded
from graph_opt.embedding.tables import Table, table_parts
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops.group_embedding import (
    NO_DEFAULT,
    GroupAttributes,
    GroupIds,
    group_embedding_lookup,
)
from graph_opt.ops.stock_lookup import LookupIds, lookup_separately

_LOCAL_JOB = "localhost"


class GroupedLookup(NamedTuple):
    """One lookup of a group.

    Attributes:
      place: Its position in the group.
      table: The table.
      ids: Ids and weights.
      combiner: `sum`, `mean` or `sqrtn`.
      default_id: The table row that stands in where a row of the input has no ids; None for zeros.
    """

    place: int
    table: Table
    ids: LookupIds
    combiner: str
    default_id: Optional[int]


class LookupBuilder(abc.ABC):
    """Builds lookups of tables that are in one kind of place, seen from the ids.

    Attributes:
      is_grouped: Whether one op looks up several tables.
    """

    is_grouped: ClassVar[bool]

    @staticmethod
    @abc.abstractmethod
    def includes(table_devices: Set[str], ids_device: str) -> bool:
        """Whether this builds lookups of a table.

        Args:
          table_devices: Device strings of the table's parts.
          ids_device: Device string of the ids.
        """

    @staticmethod
    @abc.abstractmethod
    def group_key(table: Table) -> Hashable:
        """Tables with equal keys are looked up by the same call of `look_up`."""

    @staticmethod
    @abc.abstractmethod
    def look_up(
        lookups: Sequence[GroupedLookup], partition_strategy: str, safe: bool
    ) -> List[tf.Tensor]:
        """Builds lookups and returns one result for each.

        Args:
          lookups: Lookups of tables with equal keys.
          partition_strategy: As in `group_lookup.lookup_group`.
          safe: As in `group_lookup.lookup_group`.
        """


class OneDevice(LookupBuilder):
    """The table is on one device of the task of its ids: one op looks up the device's tables."""

    is_grouped = True

    @staticmethod
    def includes(table_devices: Set[str], ids_device: str) -> bool:
        """See `LookupBuilder`.

        Example:
          >>> OneDevice.includes({"/job:ps/task:0"}, "/job:worker/task:0")
          False
        """
        if len(table_devices) > 1:
            return False
        table = _spec(next(iter(table_devices)))
        if table.job in (None, _LOCAL_JOB):
            return True
        ids = _spec(ids_device)
        return (table.job, table.replica or 0, table.task or 0) == (
            ids.job,
            ids.replica or 0,
            ids.task or 0,
        )

    @staticmethod
    def group_key(table: Table) -> Hashable:
        """See `LookupBuilder`."""
        return next(iter(table.devices)), table.shards[0].dtype == tf.resource

    @staticmethod
    def look_up(
        lookups: Sequence[GroupedLookup], partition_strategy: str, safe: bool
    ) -> List[tf.Tensor]:
        """See `LookupBuilder`."""
        return _look_up_together(lookups, partition_strategy, safe)


class SeveralDevices(LookupBuilder):
    """The table is on another task than its ids, or its parts are on several devices.

    A group would send the ids and results of each lookup separately, whereas `do_group_embedding`
    packs TensorFlow's own lookups into one transfer per parameter server.
    """

    is_grouped = False

    @staticmethod
    def includes(table_devices: Set[str], ids_device: str) -> bool:
        """See `LookupBuilder`."""
        return not OneDevice.includes(table_devices, ids_device)

    @staticmethod
    def group_key(table: Table) -> Hashable:
        """See `LookupBuilder`."""
        return table.key

    @staticmethod
    def look_up(
        lookups: Sequence[GroupedLookup], partition_strategy: str, safe: bool
    ) -> List[tf.Tensor]:
        """See `LookupBuilder`."""
        return [
            lookup_separately(
                lookup.table.parts,
                lookup.ids,
                lookup.combiner,
                lookup.default_id,
                partition_strategy,
                prune=safe,
            )
            for lookup in lookups
        ]


class AmongRanks(SeveralDevices):
    """The session shards the table across ranks, and makes one exchange of all such lookups."""

    @staticmethod
    def includes(table_devices: Set[str], ids_device: str) -> bool:
        """Devices do not tell: it is a table that was marked."""
        return False


BUILDERS: Tuple[Type[LookupBuilder], ...] = (OneDevice, SeveralDevices)


def builder_of(
    table_devices: Set[str], ids_device: str, own: Optional[Type[LookupBuilder]] = None
) -> Type[LookupBuilder]:
    """What builds lookups of a table.

    Args:
      table_devices: As for `LookupBuilder.includes`.
      ids_device: As for `LookupBuilder.includes`.
      own: That of `own_builder`.
    """
    if own is not None:
        return own
    return next(one for one in BUILDERS if one.includes(table_devices, ids_device))


def own_builder(table: Any) -> Optional[Type[LookupBuilder]]:
    """What builds lookups of a table on whatever devices; None for most.

    Args:
      table: As in `params` of `group_embedding_lookup_sparse`. A variable may have an attribute
        `lookup_builder`; other variables may have been marked.
    """
    first = next(iter(table_parts(table)), None)
    own: Optional[Type[LookupBuilder]] = getattr(first, "lookup_builder", None)
    return AmongRanks if own is None and is_to_be_sharded(table) else own


def _look_up_together(
    lookups: Sequence[GroupedLookup], partition_strategy: str, safe: bool
) -> List[tf.Tensor]:
    tables: Dict[Tuple[str, ...], Table] = {}
    for lookup in lookups:
        tables.setdefault(lookup.table.key, lookup.table)
    order = list(tables)
    attributes = GroupAttributes(
        lookup_tables=[order.index(lookup.table.key) for lookup in lookups],
        table_shards=[len(table.shards) for table in tables.values()],
        table_names=[table.name for table in tables.values()],
        combiners=[lookup.combiner for lookup in lookups],
        layouts=[lookup.ids.layout for lookup in lookups],
        weighted=[lookup.ids.weights is not None for lookup in lookups],
        default_ids=[
            NO_DEFAULT if lookup.default_id is None else lookup.default_id for lookup in lookups
        ],
        partition_strategies=[partition_strategy] * len(tables),
        safe=safe,
    )
    ids = GroupIds(
        ids=[lookup.ids.ids for lookup in lookups],
        positions=[lookup.ids.positions for lookup in lookups],
        shapes=[lookup.ids.shape for lookup in lookups],
        weights=[lookup.ids.weights for lookup in lookups if lookup.ids.weights is not None],
    )
    shards = [shard for table in tables.values() for shard in table.shards]
    export_users_graph(tf.get_default_graph())
    with _colocated_with(shards):
        dtypes = [lookup.table.dtype for lookup in lookups]
        return group_embedding_lookup(shards, ids, attributes, dtypes)


@contextlib.contextmanager
def _colocated_with(shards: Sequence[tf.Tensor]) -> Any:
    """Places ops on the tables' device: a table itself must never be transferred."""
    graph = tf.get_default_graph()
    with contextlib.ExitStack() as stack:
        for shard in shards:
            if shard.graph is graph:  # inside a function, which takes tables as arguments, it isn't
                stack.enter_context(graph.colocate_with(shard.op))
        yield


def _spec(device: str) -> Any:
    return tf.DeviceSpec.from_string(device) if device else tf.DeviceSpec()
