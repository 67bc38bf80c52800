"""The variables of a layer's tables, as its strategy places them."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.layer_kinds import looks_up_rows, table_dtype
from graph_opt.distributed_embeddings.merged_variable import Member, MergedVariable
from graph_opt.distributed_embeddings.placed_tables import PlacedColumns, PlacedTable
from graph_opt.distributed_embeddings.strategy import (
    DATA_PARALLEL,
    ROW_SLICED,
    TABLE_PARALLEL,
    DistEmbeddingStrategy,
    merge_key,
)
from graph_opt.sharding.exchange import ShardedTable
from graph_opt.sharding.initial_part import initial_part
from graph_opt.sharding.placement import (
    DivRows,
    ReplicatedRows,
    RowsOnRank,
    Slice,
)
from graph_opt.sharding.sharded_variable import StaticVariable
from graph_opt.sharding.transport import Transport

_WEIGHT = "embeddings"  # as Keras calls the weight of an embedding layer
_MERGED = "merged"


class PiecePlace(NamedTuple):
    """Where the rows of a piece of a table are.

    Attributes:
      variable: The variable that has them, beside others.
      member: The piece, as that variable knows it.
      rank: The rank that has it.
      place: Its place in the strategy's `table_ids` of that rank.
    """

    variable: MergedVariable
    member: Member
    rank: int
    place: int


class RowSlicedVariable(StaticVariable):
    """This rank's rows of a table whose rows are sharded across all ranks."""

    de_local = True


class LayerTables:
    """The variables that a rank has of a layer's tables; those of custom layers are not among them.

    Args:
      strategy: Where tables are.
      transport: The ranks.
      scope: Name of the layer: rows start with numbers that follow from it and the table's name.

    Attributes:
      names: Name of each table, unique in the layer.
      merged: Variables with table parallel tables, one for each width and combiner.
      row_sliced: Variables of tables divided by rows, by number of the table.
      replicated: Those of data parallel tables, by number of the table.
      pieces: Of each table parallel table, where its columns are, from left to right.
    """

    def __init__(self, strategy: DistEmbeddingStrategy, transport: Transport, scope: str) -> None:
        self._strategy = strategy
        self._transport = transport
        self._scope = scope
        self._configs = strategy.global_configs
        self.names = _unique([str(config.get("name", "table")) for config in self._configs])
        self.merged: List[MergedVariable] = []
        self.pieces: Dict[int, List[PiecePlace]] = {}
        self._make_merged()
        self.row_sliced = {table: self._row_sliced(table) for table in self._with_rows(ROW_SLICED)}
        self.replicated = {
            table: self._replicated(table) for table in self._with_rows(DATA_PARALLEL)
        }

    def replicated_table(self, table: int) -> ShardedTable:
        """What lookups need to know of a data parallel table."""
        rows, width = self._shape(table)
        rule = ReplicatedRows(rows, self._transport.size, self._transport.rank)
        return ShardedTable(self.names[table], self.replicated[table], rule, width)

    def placed(self, table: int) -> PlacedTable:
        """A table, for what reads and writes all of it."""
        shape = self._shape(table)
        if table in self.row_sliced:
            variable: Any = self.row_sliced[table]
            parts = [PlacedColumns(variable.rows, 0, shape[1], variable, 0)]
        elif table in self.replicated:
            variable = self.replicated[table]
            rule = self.replicated_table(table).rows
            parts = [PlacedColumns(rule, 0, shape[1], variable, 0)]
        else:
            parts = [self._placed_piece(one) for one in self.pieces[table]]
        return PlacedTable(self.names[table], shape, parts[0].variable.dtype.base_dtype, parts)

    def _placed_piece(self, piece: PiecePlace) -> PlacedColumns:
        member, variable = piece.member, piece.variable
        width = int(variable.shape[1])
        return PlacedColumns(member.rows, member.first_column, width, variable, member.first_row)

    def _with_rows(self, group: int) -> List[int]:
        """The tables of a group that are not those of custom layers."""
        tables = self._strategy.table_groups[group]
        return [one for one in tables if looks_up_rows(self._configs[one]["layer_type"])]

    def _make_merged(self) -> None:
        strategy = self._strategy
        groups: Dict[Any, List[Tuple[int, int]]] = {}
        for rank, configs in enumerate(strategy.local_configs):
            for number, config in enumerate(configs):
                if looks_up_rows(config["layer_type"]):
                    groups.setdefault(merge_key(config), []).append((rank, number))
        for group in groups.values():
            self._make_group(group)
        for places in self.pieces.values():
            places.sort(key=lambda one: one.member.first_column)

    def _make_group(self, group: Sequence[Tuple[int, int]]) -> None:
        """One variable on all ranks, for these merged tables of different ranks."""
        strategy, size = self._strategy, self._transport.size
        rows = [0] * size
        places: List[Tuple[int, int, int]] = []
        for rank, number in group:
            rows[rank] = strategy.local_weight_offsets[rank][number][-1]
            for member, first in zip(
                strategy.local_group_list[rank][number],
                strategy.local_weight_offsets[rank][number],
            ):
                places.append((rank, member, first))
        config = strategy.local_configs[group[0][0]][group[0][1]]
        pieces = [strategy.column_pieces[rank][place] for rank, place, _ in places]
        tables = [strategy.table_groups[TABLE_PARALLEL][piece.table] for piece in pieces]
        name = self._name(tables, config["output_dim"])
        members = [
            Member(
                name=self._full_name(table),
                rows=RowsOnRank(self._shape(table)[0], size, rank),
                first_row=first,
                first_column=piece.first_column,
                table_width=self._shape(table)[1],
            )
            for (rank, _, first), piece, table in zip(places, pieces, tables)
        ]
        variable = MergedVariable(
            rows_of_ranks=rows,
            members=members,
            initial_value=lambda: self._first_rows(members, tables, config["output_dim"]),
            **self._arguments(tables[0], name),
        )
        self.merged.append(variable)
        for (rank, place, _), of_table, table in zip(places, members, tables):
            self.pieces.setdefault(table, []).append(PiecePlace(variable, of_table, rank, place))

    def _name(self, tables: Sequence[int], width: int) -> str:
        if len(tables) == 1 and self._shape(tables[0])[1] == width:
            return self._full_name(tables[0])
        return "{}/{}_{}".format(self._scope, _MERGED, len(self.merged))

    def _full_name(self, table: int) -> str:
        return "{}/{}/{}".format(self._scope, self.names[table], _WEIGHT)

    def _first_rows(self, members: Sequence[Member], tables: Sequence[int], width: int) -> Any:
        rank = self._transport.rank
        parts = [
            self._initial(table, Slice(member.rows, member.first_column, width))
            for member, table in zip(members, tables)
            if member.rows.rank == rank
        ]
        if len(parts) == 1:
            return parts[0]
        return tf.concat(parts, axis=0) if parts else tf.zeros([0, width], self._dtype(tables[0]))

    def _row_sliced(self, table: int) -> RowSlicedVariable:
        shape = self._shape(table)
        rule = DivRows(shape[0], self._transport.size)
        return RowSlicedVariable(
            rows=rule,
            width=shape[1],
            initial_value=lambda: self._initial(table, Slice(rule, 0, shape[1])),
            **self._arguments(table, self._full_name(table)),
        )

    def _replicated(self, table: int) -> Any:
        shape = self._shape(table)
        rule = ReplicatedRows(shape[0], self._transport.size)
        arguments = self._arguments(table, self._full_name(table))
        arguments.pop("transport")
        return tf.Variable(
            lambda: self._initial(table, Slice(rule, 0, shape[1])), use_resource=True, **arguments
        )

    def _arguments(self, table: int, name: str) -> Dict[str, Any]:
        return dict(
            transport=self._transport,
            name=name,
            dtype=self._dtype(table),
            trainable=bool(self._configs[table].get("trainable", True)),
        )

    def _initial(self, table: int, part: Slice) -> Any:
        """The same rows on any number of ranks, wherever they are."""
        config = self._configs[table]
        rank = self._transport.rank
        width = config["output_dim"]
        initializer = tf.keras.initializers.get(config.get("embeddings_initializer", "uniform"))
        name = "{}/{}".format(self._scope, self.names[table])
        values = initial_part(initializer, part, rank, width, self._dtype(table), name)
        return tf.ensure_shape(values, part.shape_on(rank))

    def _shape(self, table: int) -> Tuple[int, int]:
        config = self._configs[table]
        return config["input_dim"], config["output_dim"]

    def _dtype(self, table: int) -> Any:
        return table_dtype(self._configs[table])


def _unique(names: Sequence[str]) -> List[str]:
    unique: List[str] = []
    for name in names:
        number, found = 0, name
        while found in unique:
            number += 1
            found = "{}_{}".format(name, number)
        unique.append(found)
    return unique
