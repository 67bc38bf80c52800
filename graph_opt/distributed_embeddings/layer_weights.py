"""What a layer of sharded tables does with whole ones."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.placed_tables import PlacedTable
from graph_opt.distributed_embeddings.table_weights import assign_op, read_tables, write_tables
from graph_opt.sharding.transport import Transport

MOST_ELEMENTS_AT_ONCE = 134217728


class LayerWeights:
    """Reads and writes the tables of a layer as whole ones, in blocks.

    Attributes:
      transport: How the layer's ranks reach each other.
    """

    transport: Transport

    def placed_tables(self) -> List[PlacedTable]:
        """The layer's tables.

        Raises:
          ValueError: The layer has not been built.
        """
        raise NotImplementedError

    def get_weights(
        self,
        all_ranks: bool = False,
        session: Any = None,
        paths: Optional[Sequence[Any]] = None,
        chunk: int = MOST_ELEMENTS_AT_ONCE,
    ) -> List[np.ndarray]:
        """The whole tables, in their order; to be called by all ranks.

        Args:
          all_ranks: Whether all ranks get them. Otherwise rank 0 does, and others an empty list.
          session: Of the layer's graph; None for eager layers.
          paths: A .npy file for each table, which rank 0 writes block by block. What is returned
            is then mapped from these files. An earlier file stays until its successor is whole.
          chunk: Most elements in memory at once, beside the tables that are returned.

        Returns:
          [input_dim, output_dim] for each table.

        Raises:
          ValueError: The layer has not been built, which weight of a custom layer is its table
            cannot be told, or there is not one path for each table.
          OSError: A file cannot be written.

        Example:
          >>> layer.get_weights(paths=["users.npy", "items.npy"])
        """
        return read_tables(
            self.placed_tables, self.transport, all_ranks, _positive(chunk), paths, session
        )

    def set_weights(
        self,
        weights: Sequence[Any],
        chunk: int = MOST_ELEMENTS_AT_ONCE,
        use_lock: bool = False,
        session: Any = None,
    ) -> None:
        """Writes whole tables; to be called by all ranks, each of which takes its own parts.

        Args:
          weights: For each table an array, or the path of a .npy file that this rank sees; all
            ranks give the same.
          chunk: Most elements in memory at once.
          use_lock: Whether ranks read one after another, for disks and memory that they share.
          session: Of the layer's graph; None for eager layers.

        Raises:
          ValueError: The layer has not been built, which weight of a custom layer is its table
            cannot be told, or a weight does not fit its table. Nothing has changed then, on any
            rank.
          OSError: A file cannot be read.
          RuntimeError: Another rank has failed.

        Example:
          >>> layer.set_weights(["users.npy", "items.npy"], use_lock=True)
        """
        write_tables(
            self.placed_tables, weights, self.transport, _positive(chunk), use_lock, session
        )

    def assign_ops(self, weights: Sequence[Any], chunk: int = MOST_ELEMENTS_AT_ONCE) -> Any:
        """The op that writes this rank's parts of whole tables, for graphs.

        Nothing is sent, and the weights are no part of the graph: the op reads them when it runs.

        Args:
          weights: As for `set_weights`.
          chunk: Most elements in memory at once.

        Raises:
          ValueError: The layer has not been built, or a weight does not fit its table.
          RuntimeError: The layer is eager.

        Example:
          >>> load = layer.assign_ops(["users.npy", "items.npy"])
          >>> scaffold = tf.train.Scaffold(init_fn=lambda _, session: session.run(load))
        """
        if tf.executing_eagerly():
            raise RuntimeError("assign_ops makes an op of a graph; eagerly, call set_weights")
        tables = self.placed_tables()
        return assign_op(tables, weights, self.transport.rank, _positive(chunk))


def _positive(chunk: int) -> int:
    if chunk < 1:
        raise ValueError("chunk is {!r}; need a positive number of elements".format(chunk))
    return int(chunk)
