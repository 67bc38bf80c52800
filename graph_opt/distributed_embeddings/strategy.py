"""`DistEmbeddingStrategy`: which rank has which part of which table, and looks up what there."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from graph_opt.distributed_embeddings.column_placement import (
    BASIC,
    STRATEGIES,
    ColumnPiece,
    placed_pieces,
)
from graph_opt.distributed_embeddings.embedding import Embedding
from graph_opt.distributed_embeddings.layer_kinds import looks_up_rows, table_dtype
from graph_opt.sharding.placement import DivRows

DATA_PARALLEL, TABLE_PARALLEL, ROW_SLICED = range(3)

Config = Dict[str, Any]


class MergedTables(NamedTuple):
    """Tables, or slices of them, that are one table on a rank: their rows follow one another.

    Attributes:
      config: Of the embedding layer that has them.
      members: Which of the rank's pieces they are.
      first_rows: The first row of each, and after them the number of all rows.
    """

    config: Config
    members: List[int]
    first_rows: List[int]


class DistEmbeddingStrategy:
    """Places the tables of some embedding layers on ranks. Nothing is made and nothing is sent.

    Small tables can be on every rank (data parallel), and large ones divided by rows. The others,
    perhaps cut into slices of columns, are each on one rank, where those of equal width and
    combiner become one table. With one rank, the strategy is `basic`, and all tables are there.

    Args:
      embeddings: Layers with `get_config()`, which gives `input_dim` and `output_dim`.
      world_size: Number of ranks.
      strategy: `basic`, `memory_balanced` or `memory_optimized`.
      input_table_map: The table that each input is looked up in; None: input i in table i.
      column_slice_threshold: Most elements of a slice of columns; None: tables are only cut where
        there are fewer than ranks.
      row_slice_threshold: Fewest elements of a table whose rows are sharded across all ranks.
      data_parallel_threshold: Most elements of a table that every rank has.
      gpu_embedding_size: Most elements on a rank's GPU; the largest tables beyond it are marked
        `cpu_offload` in `local_configs`.

    Attributes:
      table_groups: Numbers of the tables that are data parallel, table parallel and divided by
        rows: three lists.
      input_groups: Numbers of the inputs that are looked up in tables of each group.
      map_groups: For these inputs, the number of the table in its group.
      rev_group_ids: Where each input is among those of all groups.
      dp_configs: Configs of the data parallel tables.
      table_ids: For each rank, the tables of which it has a slice, as numbers in their group.
      input_ids_list: For each rank, the inputs that it looks up, as numbers in their group.
      local_configs: For each rank, the configs of its merged tables.
      local_maps: For each input in `input_ids_list`, which of these.
      local_input_offsets: For each of these inputs, the first row of its table there.
      local_group_list: For each merged table, its members, as places in `table_ids`.
      local_weight_offsets: For each merged table, the first row of each member, and its row count.
      widths_list_flat: Widths of all outputs, rank after rank.
      rev_tp_ids: The order that sorts these outputs by input; slices of columns from left to right.
      sliced_out_ranges: [first, end] of outputs to concatenate for an input, once those of the
        inputs before it are.
      row_sliced_configs: For each rank, the configs of its parts of tables divided by rows.
      row_inputs_offsets: For each rank, the first row of each such part.

    Raises:
      ValueError: There is no such strategy, a table is not mapped, or a rank has nothing.

    Example:
      >>> tables = [Embedding(100, 8, combiner="sum"), Embedding(50, 8, combiner="sum")]
      >>> DistEmbeddingStrategy(tables, world_size=2).table_ids
      [[0], [1]]
    """

    def __init__(
        self,
        embeddings: Sequence[Any],
        world_size: int,
        strategy: str = BASIC,
        input_table_map: Optional[Sequence[int]] = None,
        column_slice_threshold: Optional[int] = None,
        row_slice_threshold: Optional[int] = None,
        data_parallel_threshold: Optional[int] = None,
        gpu_embedding_size: Optional[int] = None,
    ) -> None:
        if strategy not in STRATEGIES:
            raise ValueError(
                "strategy is {!r}; choose one of {}".format(strategy, ", ".join(STRATEGIES))
            )
        alone = world_size == 1
        self.strategy = BASIC if alone else strategy
        self.world_size = world_size
        self.column_slice_threshold = column_slice_threshold
        self.row_slice_threshold = None if alone else row_slice_threshold
        self.data_parallel_threshold = None if alone else data_parallel_threshold
        self.gpu_embedding_size = gpu_embedding_size
        self.global_configs = [_config(embedding) for embedding in embeddings]
        self.input_table_map = _checked_map(input_table_map, len(embeddings))
        self._group_tables()
        self._group_inputs()
        configs = [[self.global_configs[one] for one in group] for group in self.table_groups]
        self.dp_configs = configs[DATA_PARALLEL]
        self._place_columns(configs[TABLE_PARALLEL])
        self._place_rows(configs[ROW_SLICED])

    def pieces_of_inputs(self, rank: int) -> List[ColumnPiece]:
        """What each input of `input_ids_list` of a rank is looked up in there."""
        map_of_group = self.map_groups[TABLE_PARALLEL]
        pieces = {piece.table: piece for piece in self.column_pieces[rank]}
        return [pieces[map_of_group[one]] for one in self.input_ids_list[rank]]

    def _group_tables(self) -> None:
        self.table_groups: List[List[int]] = [[], [], []]
        for table, config in enumerate(self.global_configs):
            self.table_groups[self._group_of(config)].append(table)

    def _group_of(self, config: Config) -> int:
        elements = config["input_dim"] * config["output_dim"]
        if self.data_parallel_threshold is not None and elements <= self.data_parallel_threshold:
            return DATA_PARALLEL
        by_rows = self.row_slice_threshold is not None and elements >= self.row_slice_threshold
        return ROW_SLICED if by_rows else TABLE_PARALLEL

    def _group_inputs(self) -> None:
        self.input_groups: List[List[int]] = []
        self.map_groups: List[List[int]] = []
        for tables in self.table_groups:
            inputs = [one for one, table in enumerate(self.input_table_map) if table in tables]
            self.input_groups.append(inputs)
            self.map_groups.append([tables.index(self.input_table_map[one]) for one in inputs])
        self.rev_group_ids = _order([one for inputs in self.input_groups for one in inputs])

    def _place_columns(self, configs: Sequence[Config]) -> None:
        shapes = [(config["input_dim"], config["output_dim"]) for config in configs]
        self.column_pieces: List[List[ColumnPiece]] = placed_pieces(
            shapes, self.world_size, self.strategy, self.column_slice_threshold
        )
        self.table_ids = [[piece.table for piece in pieces] for pieces in self.column_pieces]
        map_of_group = self.map_groups[TABLE_PARALLEL]
        self.input_ids_list: List[List[int]] = []
        self.local_maps: List[List[int]] = []
        self.local_configs: List[List[Config]] = []
        self.local_input_offsets: List[List[int]] = []
        self.local_group_list: List[List[List[int]]] = []
        self.local_weight_offsets: List[List[List[int]]] = []
        self.widths_list_flat: List[int] = []
        for pieces in self.column_pieces:
            merged = _merged(self._local_configs(pieces, configs))
            self.local_configs.append([one.config for one in merged])
            self.local_group_list.append([one.members for one in merged])
            self.local_weight_offsets.append([one.first_rows for one in merged])
            self._place_inputs(pieces, merged, map_of_group)
        order = [one for inputs in self.input_ids_list for one in inputs]
        self.rev_tp_ids = _order(order)
        counts = [order.count(one) for one in range(len(map_of_group))]
        self.sliced_out_ranges = [
            [one, one + count] for one, count in enumerate(counts) if count > 1
        ]

    def _local_configs(
        self, pieces: Sequence[ColumnPiece], configs: Sequence[Config]
    ) -> List[Config]:
        local = [dict(configs[piece.table], output_dim=piece.width) for piece in pieces]
        if self.gpu_embedding_size is not None:
            total = 0
            for config in sorted(local, key=lambda one: one["input_dim"] * one["output_dim"]):
                total += config["input_dim"] * config["output_dim"]
                config["cpu_offload"] = total > self.gpu_embedding_size
        return local

    def _place_inputs(
        self,
        pieces: Sequence[ColumnPiece],
        merged: Sequence[MergedTables],
        map_of_group: Sequence[int],
    ) -> None:
        inputs: List[int] = []
        maps: List[int] = []
        offsets: List[int] = []
        for place, piece in enumerate(pieces):
            number = next(i for i, one in enumerate(merged) if place in one.members)
            first_row = merged[number].first_rows[merged[number].members.index(place)]
            for one, table in enumerate(map_of_group):
                if table == piece.table:
                    inputs.append(one)
                    maps.append(number)
                    offsets.append(first_row)
                    self.widths_list_flat.append(piece.width)
        self.input_ids_list.append(inputs)
        self.local_maps.append(maps)
        self.local_input_offsets.append(offsets)

    def _place_rows(self, configs: Sequence[Config]) -> None:
        rules = [DivRows(config["input_dim"], self.world_size) for config in configs]
        ranks = range(self.world_size)
        self.row_sliced_configs = [
            [
                dict(config, input_dim=rule.num_local_rows(rank))
                for config, rule in zip(configs, rules)
            ]
            for rank in ranks
        ]
        self.row_inputs_offsets = [[rule.key(rank, 0) for rule in rules] for rank in ranks]


def merge_key(config: Config) -> Any:
    """What tables that become one must have in common; None for one that stays alone."""
    if config.get("cpu_offload") or not looks_up_rows(config["layer_type"]):
        return None
    dtype, trainable = table_dtype(config).name, bool(config.get("trainable", True))
    return config["output_dim"], config.get("combiner"), dtype, trainable


def _config(embedding: Any) -> Config:
    config = dict(embedding.get_config())
    kind = type(embedding)
    return dict(config, layer_type=Embedding if looks_up_rows(kind) else kind)


def _checked_map(input_table_map: Optional[Sequence[int]], num_tables: int) -> List[int]:
    tables = list(range(num_tables) if input_table_map is None else input_table_map)
    unknown = [one for one in tables if not 0 <= one < num_tables]
    if unknown:
        raise ValueError(
            "input_table_map names table {}, but there are {} tables".format(unknown[0], num_tables)
        )
    return tables


def _merged(configs: Sequence[Config]) -> List[MergedTables]:
    merged: List[MergedTables] = []
    for place, config in enumerate(configs):
        key = merge_key(config)
        alike = (one for one in merged if key is not None and merge_key(one.config) == key)
        found = next(alike, None)
        if found is None:
            merged.append(MergedTables(dict(config), [place], [0, config["input_dim"]]))
        else:
            found.members.append(place)
            found.first_rows.append(found.first_rows[-1] + config["input_dim"])
            found.config["input_dim"] = found.first_rows[-1]
    return merged


def _order(values: Sequence[int]) -> List[int]:
    """Places of values, ascending by value, then by place."""
    return sorted(range(len(values)), key=lambda place: (values[place], place))
