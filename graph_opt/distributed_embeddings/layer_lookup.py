"""The lookups of a layer: one exchange for all tables that only give rows."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.custom_layers import CustomLayers
from graph_opt.distributed_embeddings.id_ranges import IdRange, rows_of_ids
from graph_opt.distributed_embeddings.layer_inputs import BagInput, read_input
from graph_opt.distributed_embeddings.layer_tables import LayerTables, PiecePlace
from graph_opt.distributed_embeddings.sent_outputs import send_outputs
from graph_opt.distributed_embeddings.strategy import TABLE_PARALLEL, DistEmbeddingStrategy
from graph_opt.sharding.exchange import ShardedTable, TableLookup, look_up
from graph_opt.sharding.placement import ReplicatedRows
from graph_opt.sharding.transport import OneRank, Transport


class PlacedLayer(NamedTuple):
    """A layer whose tables are placed.

    Attributes:
      name: Of the layer, for errors.
      strategy: Where tables are.
      tables: Their variables.
      custom: Those of custom layers.
      transport: The ranks.
      wire: Dtype in which rows, or results, travel; None: that of their table.
    """

    name: str
    strategy: DistEmbeddingStrategy
    tables: LayerTables
    custom: CustomLayers
    transport: Transport
    wire: Optional[Any] = None


class _PieceLookup(NamedTuple):
    """An input, looked up in a piece of its table."""

    bags: BagInput
    table: ShardedTable
    rows: IdRange


def look_up_inputs(inputs: Sequence[Any], layer: PlacedLayer) -> List[Any]:
    """Results of this rank's batch.

    Args:
      inputs: Of all tables, in the order of the strategy's `input_table_map`.
      layer: The layer.
    """
    strategy, custom = layer.strategy, layer.custom
    of_custom: Dict[int, Any] = {}
    bags: Dict[int, BagInput] = {}
    for place, (given, table) in enumerate(zip(inputs, strategy.input_table_map)):
        if custom.has(table):
            of_custom[place] = given
        else:
            combiner = strategy.global_configs[table].get("combiner")
            bags[place] = read_input(place, given, combiner, layer.name)
    pieces = [
        (place, _PieceLookup(of_place, divided, rows))
        for place, of_place in bags.items()
        for divided, rows in _tables_of(strategy.input_table_map[place], layer.tables)
    ]
    columns: Dict[int, List[tf.Tensor]] = {}
    rows_of_pieces = _pooled([one for _, one in pieces], layer.transport, layer.wire)
    for (place, _), pooled in zip(pieces, rows_of_pieces):
        columns.setdefault(place, []).append(pooled)
    outputs: Dict[int, Any] = custom.look_up(of_custom, layer.name, layer.wire)
    for place, parts in columns.items():
        outputs[place] = bags[place].as_output(parts[0] if len(parts) == 1 else tf.concat(parts, 1))
    return [outputs[place] for place in range(len(inputs))]


def look_up_own_inputs(inputs: Sequence[Any], layer: PlacedLayer) -> List[Any]:
    """Results of this rank's share of the batch of all ranks, from the inputs of its own tables.

    Args:
      inputs: Those of the strategy's `input_ids_list[rank]`.
      layer: The layer.
    """
    strategy, custom, rank = layer.strategy, layer.custom, layer.transport.rank
    own: List[Any] = []
    pieces: List[_PieceLookup] = []
    places: List[int] = []
    for place, (given, piece) in enumerate(zip(inputs, strategy.pieces_of_inputs(rank))):
        table = strategy.table_groups[TABLE_PARALLEL][piece.table]
        if custom.has(table):
            own.append(custom.call_own(table, given))
            continue
        combiner = strategy.global_configs[table].get("combiner")
        bags = read_input(place, given, combiner, layer.name)
        found = next(one for one in layer.tables.pieces[table] if one.rank == rank)
        pieces.append(_PieceLookup(bags, _local_table(found), _rows_of(found)))
        places.append(len(own))
        own.append(None)
    for place, piece_lookup, pooled in zip(places, pieces, _pooled(pieces, OneRank(), None)):
        own[place] = piece_lookup.bags.as_output(pooled)
    weights = [*layer.tables.merged, *custom.empty]
    return send_outputs(own, weights, strategy, layer.transport, layer.name, layer.wire)


def _tables_of(table: int, tables: LayerTables) -> List[Tuple[ShardedTable, IdRange]]:
    name = tables.names[table]
    if table in tables.pieces:
        return [(one.variable.table_on(one.rank), _rows_of(one)) for one in tables.pieces[table]]
    if table in tables.row_sliced:
        divided = tables.row_sliced[table].sharded_table
    else:
        divided = tables.replicated_table(table)
    divided = divided._replace(name=name)
    return [(divided, IdRange(name, divided.rows.num_rows, 0))]


def _rows_of(piece: PiecePlace) -> IdRange:
    return IdRange(piece.member.name, piece.member.rows.num_rows, piece.member.first_row)


def _local_table(piece: PiecePlace) -> ShardedTable:
    variable = piece.variable
    rows, width = variable.shape.as_list()
    return ShardedTable(variable.name.split(":")[0], variable, ReplicatedRows(rows, 1), width)


def _pooled(
    pieces: Sequence[_PieceLookup], transport: Transport, wire: Optional[Any]
) -> List[tf.Tensor]:
    """Pooled rows of each piece."""
    if not pieces:
        return []
    ids = [one.bags.ids for one in pieces]
    shared = [
        place for place, one in enumerate(pieces) if one.rows.num_rows != one.table.rows.num_rows
    ]
    if shared:
        rows = rows_of_ids(
            [ids[place].ids for place in shared],
            [pieces[place].rows for place in shared],
            all(pieces[place].bags.of_samples for place in shared),
        )
        for place, of_place in zip(shared, rows):
            ids[place] = ids[place]._replace(ids=of_place)
    lookups = [
        TableLookup(one.table, of_piece, one.bags.combiner) for one, of_piece in zip(pieces, ids)
    ]
    return look_up(lookups, transport, wire=wire)
