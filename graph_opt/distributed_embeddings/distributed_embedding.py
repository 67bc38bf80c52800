"""`DistributedEmbedding`: the embedding layers of a model, sharded across ranks, as one layer.

Tables of equal width on a rank are one variable, of whose rows other ranks have none or other
tables' (`merged_variable`). To the exchange the rows of each rank are one table, which its owner
has all of, so that it may pool bags. Ids become rows of it once it is known that their table has
them (`id_ranges`), in a number of ops that does not depend on the number of inputs. What saves such
variables sees the parts of tables in them (`keyed_rows.table_parts`).

Layers of a script's own get ids and send results in messages of their own (`custom_layers`): ranks
without any wait for the ids, too, and have a variable without rows, so that all build the same
messages both ways.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.column_placement import STRATEGIES
from graph_opt.distributed_embeddings.custom_layers import CustomLayers
from graph_opt.distributed_embeddings.embedding import Embedding
from graph_opt.distributed_embeddings.layer_inputs import batch_size
from graph_opt.distributed_embeddings.layer_kinds import looks_up_rows
from graph_opt.distributed_embeddings.layer_lookup import (
    PlacedLayer,
    look_up_inputs,
    look_up_own_inputs,
)
from graph_opt.distributed_embeddings.layer_tables import LayerTables
from graph_opt.distributed_embeddings.layer_weights import LayerWeights
from graph_opt.distributed_embeddings.placed_tables import PlacedTable
from graph_opt.distributed_embeddings.strategy import DistEmbeddingStrategy
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.sharding.transport_in_use import transport_or_init

# Of an embedding layer: what acts on whole tables, of which a rank has parts.
_OF_WHOLE_TABLES = ("embeddings_regularizer", "embeddings_constraint", "activity_regularizer")


class DistributedEmbedding(LayerWeights, tf.keras.layers.Layer):
    """All embedding layers of a model as one, with their tables sharded across ranks.

    All ranks must make the same layer, with the same name. Each then gives its own batch, of any
    size, and gets its own results. Gradients of sharded tables are summed over ranks;
    `DistributedGradientTape` and `DistributedOptimizer` average them, like all others.

    Args:
      embeddings: Layers that are not built: `Embedding`, ours or Keras', or others with
        `get_config()` that gives `input_dim` and `output_dim`.
      strategy: `basic`, `memory_balanced` or `memory_optimized`; see `DistEmbeddingStrategy` for
        them and for the thresholds.
      column_slice_threshold: Most elements of a slice of columns.
      row_slice_threshold: Fewest elements of a table whose rows are sharded across all ranks.
      dp_input: Whether inputs are this rank's batch. Otherwise they are the batches of all ranks,
        rank after rank, of the inputs that this rank looks up: `strategy.input_ids_list[rank]`.
      input_table_map: The table that each input is looked up in; None: input i in table i.
      data_parallel_threshold: Most elements of a table that every rank has.
      gpu_embedding_size: Accepted; tables are on the CPU.
      **layer_arguments: Of `tf.keras.layers.Layer`.

    Attributes:
      strategy: Where tables are, a `DistEmbeddingStrategy`.
      transport: How ranks reach each other.

    Raises:
      ValueError: There is no such strategy, a rank has no table, thresholds do not go with
        `dp_input=False`, or an embedding has what whole tables need (a regularizer, a constraint).

    Example:
      >>> tables = [Embedding(100, 8, combiner="sum"), Embedding(50, 8, combiner="mean")]
      >>> layer = DistributedEmbedding(tables, strategy="memory_balanced")
      >>> users, items = layer([user_ids, item_ids])  # [b, ids of a bag] -> [b, 8] each
    """

    def __init__(
        self,
        embeddings: Sequence[Any],
        strategy: str = "basic",
        column_slice_threshold: Optional[int] = None,
        row_slice_threshold: Optional[int] = None,
        dp_input: bool = True,
        input_table_map: Optional[Sequence[int]] = None,
        data_parallel_threshold: Optional[int] = None,
        gpu_embedding_size: Optional[int] = None,
        **layer_arguments: Any,
    ) -> None:
        super().__init__(**dict(layer_arguments, autocast=False))  # ids must not become floats
        _check(embeddings, strategy, dp_input, row_slice_threshold, data_parallel_threshold)
        self.transport = transport_or_init()
        self.dp_input = bool(dp_input)
        self.strategy = DistEmbeddingStrategy(
            embeddings,
            self.transport.size,
            strategy,
            input_table_map,
            column_slice_threshold,
            row_slice_threshold,
            data_parallel_threshold,
        )
        if gpu_embedding_size is not None:
            say_for_all_ranks(
                "DistributedEmbedding: gpu_embedding_size has no effect, tables are on the CPU"
            )
        self._arguments = dict(
            strategy=strategy,
            column_slice_threshold=column_slice_threshold,
            row_slice_threshold=row_slice_threshold,
            dp_input=self.dp_input,
            input_table_map=None if input_table_map is None else list(input_table_map),
            data_parallel_threshold=data_parallel_threshold,
            gpu_embedding_size=gpu_embedding_size,
        )
        self._tables: Optional[LayerTables] = None
        self._custom = CustomLayers(self.strategy, self.transport)

    def placed_tables(self) -> List[PlacedTable]:
        """Where each table is, in their order.

        Raises:
          ValueError: The layer is not built, or which weight of a custom layer of this rank is its
            table cannot be told.
        """
        if self._tables is None:
            raise ValueError("layer {!r} is not built: call it first".format(self.name))
        return [
            self._custom.placed(table, name)
            if self._custom.has(table)
            else self._tables.placed(table)
            for table, name in enumerate(self._tables.names)
        ]

    def build(self, input_shape: Any) -> None:
        """Makes this rank's part of all tables.

        Raises:
          ValueError: Inputs have batches of different sizes, or other numbers of inputs.
        """
        shapes = input_shape if isinstance(input_shape, (list, tuple)) else [input_shape]
        self._check_batches([batch_size(shape) for shape in shapes])
        with tf.name_scope(""):
            self._tables = LayerTables(self.strategy, self.transport, self.name)
            self._custom.build()
        # Keras finds variables in lists.
        self._table_variables = [
            *self._tables.merged,
            *self._tables.row_sliced.values(),
            *self._tables.replicated.values(),
            *self._custom.empty,
        ]
        self._custom_layers = self._custom.layers
        self.built = True

    def call(self, inputs: Any) -> List[Any]:
        """Looks up all inputs.

        Args:
          inputs: Ids of int32 or int64, in the order of `input_table_map`: dense [b] without a
            combiner, or [b, ..., ids of a bag]; ragged or sparse [b, ids of a bag]. With
            `dp_input=False`, those of `strategy.input_ids_list[rank]`, in that order.

        Returns:
          For each input [b, D] or, without a combiner, ids.shape + [D], ragged as the ids are.

        Raises:
          ValueError: The number or ranks of inputs do not fit.
          tf.errors.InvalidArgumentError: At run time, an id that a table does not have.
        """
        return self._look_up(list(inputs) if isinstance(inputs, (list, tuple)) else [inputs])

    @tf.autograph.experimental.do_not_convert
    def _look_up(self, given: List[Any]) -> List[Any]:
        self._check_batches([batch_size(one) for one in given])
        assert self._tables is not None
        look_up = look_up_inputs if self.dp_input else look_up_own_inputs
        wire = self._output_dtype()
        layer = PlacedLayer(
            self.name, self.strategy, self._tables, self._custom, self.transport, wire
        )
        outputs = look_up(given, layer)
        return outputs if wire is None else [tf.cast(one, wire) for one in outputs]

    def get_config(self) -> Dict[str, Any]:
        """See `tf.keras.layers.Layer`."""
        layers = []
        for config in self.strategy.global_configs:
            kept = {name: value for name, value in config.items() if name != "layer_type"}
            layers.append({"class_name": config["layer_type"].__name__, "config": kept})
        return dict(super().get_config(), embeddings=layers, **self._arguments)

    @classmethod
    def from_config(cls, config: Dict[str, Any]) -> DistributedEmbedding:
        """See `tf.keras.layers.Layer`; custom layers must be registered with Keras."""
        layers = [
            tf.keras.layers.deserialize(one, custom_objects={"Embedding": Embedding})
            for one in config["embeddings"]
        ]
        return cls(**dict(config, embeddings=layers))

    def _output_dtype(self) -> Optional[Any]:
        """What outputs are cast to; None in TensorFlow 1's graphs, where layers have no policy."""
        name = getattr(self, "compute_dtype", None)
        dtype = None if name is None else tf.as_dtype(name)
        return dtype if dtype is not None and dtype.is_floating else None

    def _check_batches(self, sizes: Sequence[Optional[int]]) -> None:
        strategy, transport = self.strategy, self.transport
        wanted = len(strategy.input_table_map)
        if not self.dp_input:
            wanted = len(strategy.input_ids_list[transport.rank])
        if len(sizes) != wanted:
            raise ValueError(
                "layer {!r} got {} inputs on rank {}; need {}".format(
                    self.name, len(sizes), transport.rank, wanted
                )
            )
        known = sorted({size for size in sizes if size is not None})
        if len(known) > 1:
            raise ValueError(
                "All input need to have same batchsize, but layer {!r} got {}".format(
                    self.name, " and ".join(map(str, known))
                )
            )
        if not self.dp_input and known and known[0] % transport.size:
            raise ValueError(
                "the global batch of layer {!r} is {}, not divisible by {} ranks".format(
                    self.name, known[0], transport.size
                )
            )


def _check(
    embeddings: Sequence[Any],
    strategy: str,
    dp_input: bool,
    row_slice_threshold: Optional[int],
    data_parallel_threshold: Optional[int],
) -> None:
    if strategy not in STRATEGIES:
        raise ValueError(
            "strategy is {!r}; choose one of {}".format(strategy, ", ".join(STRATEGIES))
        )
    if not dp_input and (row_slice_threshold is not None or data_parallel_threshold is not None):
        raise ValueError(
            "dp_input=False is for tables that are on one rank each: row_slice_threshold and "
            "data_parallel_threshold must be None"
        )
    for embedding in embeddings:
        config = embedding.get_config()
        unfit = [name for name in _OF_WHOLE_TABLES if config.get(name) is not None]
        if unfit and looks_up_rows(type(embedding)):
            raise ValueError(
                "embedding {!r} has {}, but no rank has its whole table: add it to the loss, or "
                "leave the embedding out of DistributedEmbedding".format(
                    config.get("name"), " and ".join(unfit)
                )
            )
