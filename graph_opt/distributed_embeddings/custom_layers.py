"""Embedding layers of a script's own: ids travel to the rank that has one, and results back."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.layer_inputs import integers
from graph_opt.distributed_embeddings.layer_kinds import looks_up_rows, table_dtype
from graph_opt.distributed_embeddings.placed_tables import PlacedColumns, PlacedTable
from graph_opt.distributed_embeddings.sent_ids import read_ids_of_all, sent_ids
from graph_opt.distributed_embeddings.strategy import (
    DATA_PARALLEL,
    ROW_SLICED,
    TABLE_PARALLEL,
    DistEmbeddingStrategy,
)
from graph_opt.sharding.guard import guard_graph, guarded_eagerly
from graph_opt.sharding.placement import ReplicatedRows, RowsOnRank, RowsRule
from graph_opt.sharding.transport import Transport

_IDS = "graph_opt_custom_ids"
_OUTPUTS = "graph_opt_custom_outputs"


class _CustomPiece(NamedTuple):
    """Columns of a custom layer's table, on one rank."""

    rank: int
    first_column: int
    config: Dict[str, Any]
    layer: Any  # None on other ranks


class _Output(NamedTuple):
    """What a layer returns, as far as it is known before it runs: all sizes but the first."""

    dtype: Any
    sizes: List[int]


class CustomLayers:
    """The custom layers among those of a `DistributedEmbedding`.

    Args:
      strategy: Where they are.
      transport: The ranks.

    Attributes:
      pieces: By number of the table, what each rank has of it, from left to right; of data parallel
        ones, only this rank's.
      layers: The layers that this rank has.
      empty: For each table that is elsewhere, a variable without rows: all ranks must send the
        gradients of what they got, and so need something to get a gradient.

    Raises:
      ValueError: The rows of one are to be divided.
    """

    def __init__(self, strategy: DistEmbeddingStrategy, transport: Transport) -> None:
        self._strategy = strategy
        self._transport = transport
        self._outputs: Dict[Any, _Output] = {}
        self.pieces: Dict[int, List[_CustomPiece]] = {}
        self._replicated = {
            table: self._piece(transport.rank, 0, strategy.global_configs[table])
            for table in strategy.table_groups[DATA_PARALLEL]
            if _is_custom(strategy.global_configs[table])
        }
        for table in strategy.table_groups[ROW_SLICED]:
            if _is_custom(strategy.global_configs[table]):
                raise ValueError(
                    "embedding {!r} is a {}, whose rows cannot be divided: raise "
                    "row_slice_threshold".format(
                        strategy.global_configs[table].get("name"),
                        strategy.global_configs[table]["layer_type"].__name__,
                    )
                )
        for rank, of_rank in enumerate(strategy.column_pieces):
            for piece in of_rank:
                table = strategy.table_groups[TABLE_PARALLEL][piece.table]
                config = dict(strategy.global_configs[table], output_dim=piece.width)
                if _is_custom(config):
                    self.pieces.setdefault(table, []).append(
                        self._piece(rank, piece.first_column, config)
                    )
        every = [*self._replicated.values(), *(one for of in self.pieces.values() for one in of)]
        self.layers = [one.layer for one in every if one.layer is not None]
        self.empty: List[Any] = []

    def build(self) -> None:
        """Makes the variables without rows; the layers make their own when they are called."""
        for table, pieces in self.pieces.items():
            for piece in pieces:
                if piece.layer is None and piece.config.get("trainable", True):
                    empty = tf.Variable(
                        tf.zeros([0, piece.config["output_dim"]], table_dtype(piece.config)),
                        use_resource=True,
                        name="elsewhere_{}_{}".format(table, piece.rank),
                    )
                    empty.de_local = True
                    self.empty.append(empty)

    def has(self, table: int) -> bool:
        """Whether a table is that of a custom layer."""
        return table in self.pieces or table in self._replicated

    def placed(self, table: int, name: str) -> PlacedTable:
        """The table of a custom layer, for what reads and writes all of it.

        Args:
          table: Its number.
          name: Its name.

        Raises:
          ValueError: Which weight of this rank's layer is the table cannot be told.
        """
        config = self._strategy.global_configs[table]
        rows, width = config["input_dim"], config["output_dim"]
        ranks, rank = self._transport.size, self._transport.rank
        if table in self._replicated:
            rule: RowsRule = ReplicatedRows(rows, ranks, rank)
            variable = _table_in(self._replicated[table], name)
            parts = [PlacedColumns(rule, 0, width, variable, 0)]
        else:
            parts = [
                PlacedColumns(
                    RowsOnRank(rows, ranks, piece.rank),
                    piece.first_column,
                    piece.config["output_dim"],
                    None if piece.layer is None else _table_in(piece, name),
                    0,
                )
                for piece in self.pieces[table]
            ]
        return PlacedTable(name, (rows, width), table_dtype(config), parts)

    def call_own(self, table: int, given: Any) -> Any:
        """What this rank's layer returns for ids of its own."""
        if table in self._replicated:
            return self._replicated[table].layer(integers(given))
        piece = next(one for one in self.pieces[table] if one.layer is not None)
        return self._call(piece, integers(given))

    def look_up(self, inputs: Dict[int, Any], layer: str, wire: Optional[Any]) -> Dict[int, Any]:
        """Results for this rank's ids.

        Args:
          inputs: By number of the input.
          layer: Name of the layer that has these, for errors.
          wire: Dtype in which results travel; None: theirs.

        Returns:
          By number of the input: what the layers return, side by side.
        """
        table_of = self._strategy.input_table_map
        outputs: Dict[int, Any] = {}
        for place, given in inputs.items():
            if table_of[place] in self._replicated or self._transport.size == 1:
                outputs[place] = self.call_own(table_of[place], given)
        divided = {
            place: integers(given) for place, given in inputs.items() if place not in outputs
        }
        columns: Dict[int, List[tf.Tensor]] = {}
        if divided:
            for place, result in self._from_all(divided, layer, wire):
                columns.setdefault(place, []).append(result)
        for place, parts in columns.items():
            outputs[place] = parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)
        return outputs

    def _from_all(
        self, inputs: Dict[int, Any], layer: str, wire: Optional[Any]
    ) -> List[Tuple[int, tf.Tensor]]:
        """Results with the number of their input, rank after rank."""
        transport = self._transport
        lookups = [
            (place, piece)
            for rank in range(transport.size)
            for place in inputs
            for piece in self.pieces[self._strategy.input_table_map[place]]
            if piece.rank == rank
        ]
        outputs = [self._output(place, piece, inputs[place], layer) for place, piece in lookups]
        ids = [
            sent_ids([inputs[place] for place, piece in lookups if piece.rank == rank])
            for rank in range(transport.size)
        ]
        guard_graph(transport)
        with guarded_eagerly(transport):
            received, counts = transport.all_to_all(
                tf.concat(ids, axis=0),
                tf.stack([tf.size(one) for one in ids]),
                transport.message_name(_IDS),
            )
            mine = [(place, piece) for place, piece in lookups if piece.rank == transport.rank]
            kinds = [inputs[place] for place, _ in mine]
            of_ranks = read_ids_of_all(received, kinds, transport.size)
            dtype = wire or _widest([output.dtype for output in outputs])
            results = [
                tf.concat(
                    [tf.zeros([0], dtype)]
                    + [tf.reshape(tf.cast(one, dtype), [-1]) for one in self.empty]
                    + [
                        tf.reshape(tf.cast(self._call(piece, one), dtype), [-1])
                        for (_, piece), one in zip(mine, of_rank)
                    ],
                    axis=0,
                )
                for of_rank in of_ranks
            ]
            # A rank without such layers must wait for the ids, too: this is never below zero.
            sizes = tf.stack([tf.size(one) for one in results])
            back, _ = transport.all_to_all(
                tf.concat(results, axis=0),
                tf.maximum(sizes, tf.minimum(counts, 0)),
                transport.message_name(_OUTPUTS),
            )
        found: List[Tuple[int, tf.Tensor]] = []
        first = tf.constant(0)
        for (place, _), output in zip(lookups, outputs):
            sizes = tf.concat([[_num_samples(inputs[place])], output.sizes], axis=0)
            count = tf.reduce_prod(sizes)
            result = tf.reshape(back[first : first + count], sizes)
            result.set_shape([None] + output.sizes)
            found.append((place, result if wire else tf.cast(result, output.dtype)))
            first += count
        return found

    def _output(self, place: int, piece: _CustomPiece, ids: Any, layer: str) -> _Output:
        key = place, piece.rank, _spec(ids)
        if key not in self._outputs:  # tracing takes long, for an eager step
            self._outputs[key] = _static_output(piece.config, ids, layer)
        return self._outputs[key]

    def _call(self, piece: _CustomPiece, ids: Any) -> Any:
        result = piece.layer(ids)
        for weight in piece.layer.weights:
            weight.de_local = True
        return result

    def _piece(self, rank: int, first_column: int, config: Dict[str, Any]) -> _CustomPiece:
        layer = _made(config) if rank == self._transport.rank else None
        return _CustomPiece(rank, first_column, config, layer)


def _is_custom(config: Dict[str, Any]) -> bool:
    return not looks_up_rows(config["layer_type"])


def _made(config: Dict[str, Any]) -> Any:
    kept = {name: value for name, value in config.items() if name != "layer_type"}
    return config["layer_type"].from_config(kept)


def _table_in(piece: _CustomPiece, name: str) -> Any:
    shape = [piece.config["input_dim"], piece.config["output_dim"]]
    dtype = table_dtype(piece.config)
    found = [
        weight
        for weight in piece.layer.weights
        if weight.shape.as_list() == shape and weight.dtype.base_dtype == dtype
    ]
    if len(found) != 1:
        raise ValueError(
            "embedding {!r}, a {}, has {} weights of shape {} and dtype {}; need one to read and "
            "write as its table, once it has been called".format(
                name, type(piece.layer).__name__, len(found), shape, dtype.name
            )
        )
    return found[0]


def _widest(dtypes: List[Any]) -> Any:
    return max(dtypes, key=lambda dtype: dtype.size)


def _static_output(config: Dict[str, Any], ids: Any, layer: str) -> _Output:
    output = _traced(_made(dict(config, input_dim=1)), ids)
    if output.shape.rank is None or None in output.shape.as_list()[1:]:
        raise ValueError(
            "embedding {!r} of layer {!r} returns shape {} for ids of shape {}; need all but the "
            "first dimension, so give ids of a known shape".format(
                config.get("name"), layer, output.shape, ids.shape
            )
        )
    return _Output(output.dtype, output.shape.as_list()[1:])


def _traced(layer: Any, ids: Any) -> Any:
    with tf.init_scope():  # leaves functions
        if tf.executing_eagerly():
            function = tf.function(layer).get_concrete_function(_spec(ids))
            return function.structured_outputs
    with tf.Graph().as_default():
        if isinstance(ids, tf.RaggedTensor):
            return layer(tf.ragged.placeholder(ids.dtype, 1))
        if isinstance(ids, tf.SparseTensor):
            return layer(tf.sparse_placeholder(ids.dtype, [None, None]))
        return layer(tf.placeholder(ids.dtype, _spec(ids).shape))


def _spec(ids: Any) -> Any:
    """Of a batch of any size."""
    if isinstance(ids, tf.RaggedTensor):
        return tf.RaggedTensorSpec([None, None], ids.dtype, 1)
    if isinstance(ids, tf.SparseTensor):
        return tf.SparseTensorSpec([None, None], ids.dtype)
    return tf.TensorSpec([None] + ids.shape.as_list()[1:], ids.dtype)


def _num_samples(ids: Any) -> tf.Tensor:
    if isinstance(ids, tf.RaggedTensor):
        return tf.cast(ids.nrows(), tf.int32)
    if isinstance(ids, tf.SparseTensor):
        return tf.cast(ids.dense_shape[0], tf.int32)
    return tf.shape(ids)[0]
