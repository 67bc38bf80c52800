"""What an op that updates tables takes from the updates that it replaces."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.optimizers.sparse_update import SparseUpdate


def update_slots(shards: Sequence[str], updates: Dict[str, SparseUpdate]) -> List[str]:
    """The optimizer's first slot of every shard, then its second one of every shard."""
    count = len(updates[shards[0]].slots)
    return [updates[shard].slots[slot].input_name for slot in range(count) for shard in shards]


def update_attributes(
    update: SparseUpdate, num_slots: int, num_hyperparameters: int
) -> Dict[str, Any]:
    """What an op that updates says of the optimizer."""
    flags = sorted(name for name, is_set in update.attributes.items() if is_set)
    locking = "use_locking" in flags
    return {
        "optimizer": tf.AttrValue(s=update.optimizer.encode()),
        "num_slots": values.integer(num_slots),
        "num_hyperparameters": values.integer(num_hyperparameters),
        "flags": values.texts([name for name in flags if name != "use_locking"]),
        "use_locking": tf.AttrValue(b=locking),
    }


def hyperparameter_inputs(writer: NodeWriter, update: SparseUpdate) -> List[str]:
    """The hyperparameters of an update as inputs."""
    return [
        value.input_name
        if isinstance(value, TensorRef)
        else writer.constant("hyperparameter_{}".format(place), np.float32(value))
        for place, value in enumerate(update.hyperparameters)
    ]
