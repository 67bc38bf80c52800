"""Packed lookups for tests: the ops of a group lookup placed on servers, local or remote."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.packed_embedding import (
    PreparedRows,
    ShardPlacement,
    group_embedding_apply_packed,
    group_embedding_combine,
    group_embedding_gather,
    group_embedding_pack_gradients,
    group_embedding_prepare,
)

OnServer = Callable[[int], Any]  # the context manager that places the ops of a server
BeforeGather = Callable[[List[int], tf.Tensor], tf.Operation]  # of shards' numbers and a request


def here(server: int) -> Any:
    """All servers in this process."""
    return tf.device("/cpu:0")


class PackedGroup(NamedTuple):
    """A group whose shards are on servers.

    Attributes:
      shards: Handles, values or references of all shards.
      names: For errors, one for each shard.
      ids: What is looked up.
      attributes: How it is looked up.
      placement: Where the shards are.
      widths: Width of each table.
      dtype: Type of the tables.
      on_server: Places the ops of a server.
      pool_on_server: The attribute of the ops that send.
      sends_bags_again: Whether updates send the bags of a request again.
    """

    shards: Sequence[Any]
    names: Sequence[str]
    ids: GroupIds
    attributes: GroupAttributes
    placement: ShardPlacement
    widths: Sequence[int]
    dtype: Any
    on_server: OnServer = here
    pool_on_server: str = "auto"
    sends_bags_again: bool = False

    def prepare(self) -> PreparedRows:
        """What servers are asked for."""
        return group_embedding_prepare(
            self.ids, self.attributes, self.placement, self.widths, self.pool_on_server
        )

    def look_up(self, before_gather: Optional[BeforeGather] = None) -> List[tf.Tensor]:
        """The pooled rows; `before_gather` makes an op that each server runs before it gathers."""
        prepared = self.prepare()
        rows = []
        for server in range(self.placement.num_servers):
            places = self.placement.shards_of(server)
            with self.on_server(server):
                request = prepared.requests[server]
                waits = [] if before_gather is None else [before_gather(places, request)]
                with tf.control_dependencies(waits):
                    rows.append(
                        group_embedding_gather(
                            [self.shards[place] for place in places],
                            request,
                            [self.names[place] for place in places],
                            self.dtype,
                        )
                    )
        return group_embedding_combine(
            rows, prepared, self.ids, self.attributes, self.placement, self.widths
        )

    def apply(
        self,
        optimizer: str,
        references: Sequence[tf.Tensor],
        slots: Sequence[Sequence[tf.Tensor]],
        hyperparameters: Sequence[tf.Tensor],
        gradients: Sequence[tf.Tensor],
        row_states: Sequence[str] = (),
        **options: Any,
    ) -> tf.Operation:
        """The updates of all servers; `slots` has a list of each slot's shards."""
        updates = group_embedding_pack_gradients(
            self.ids,
            self.attributes,
            self.placement,
            gradients,
            self.pool_on_server,
            self.prepare().requests if self.sends_bags_again else (),
        )
        applied = []
        for server, update in enumerate(updates):
            places = self.placement.shards_of(server)
            with self.on_server(server):
                applied.append(
                    group_embedding_apply_packed(
                        optimizer,
                        [references[place] for place in places],
                        [slot[place] for slot in slots for place in places],
                        hyperparameters,
                        update,
                        [self.names[place] for place in places],
                        row_states=[row_states[place] for place in places] if row_states else (),
                        **options,
                    )
                )
        return tf.group(*applied)


def inputs_of(op: tf.Operation) -> Tuple[List[tf.Tensor], GroupIds, GroupAttributes]:
    """Shards, ids and attributes of a group lookup's node."""
    attributes = GroupAttributes.of(op)
    num = len(attributes.lookup_tables)
    shards = sum(attributes.table_shards)
    lists = [list(op.inputs[shards + i * num : shards + (i + 1) * num]) for i in range(3)]
    ids = GroupIds(lists[0], lists[1], lists[2], weights=list(op.inputs[shards + 3 * num :]))
    return list(op.inputs[:shards]), ids, attributes


def random_servers(random: np.random.RandomState, shards: int, num_servers: int) -> List[int]:
    """A server for each shard, and a shard for each server."""
    servers = [*range(num_servers), *random.randint(0, num_servers, shards - num_servers)]
    return [int(server) for server in random.permutation(servers)]


def packed(
    op: tf.Operation,
    parts: Sequence[Any],
    servers: Sequence[int],
    on_server: OnServer = here,
) -> PackedGroup:
    """The packed form of a group lookup's node, whose shards are these variables."""
    shards, ids, attributes = inputs_of(op)
    names: List[str] = []
    widths: List[int] = []
    for table, count in enumerate(attributes.table_shards):
        widths.append(int(parts[len(names)].shape[1]))
        names.extend([attributes.table_names[table]] * count)
    rows = [int(part.shape[0]) for part in parts]
    placement = ShardPlacement(rows, list(servers), max(servers) + 1)
    dtype = tf.as_dtype(parts[0].dtype).base_dtype
    return PackedGroup(shards, names, ids, attributes, placement, widths, dtype, on_server)
