"""What an op that updates tables takes from the updates that it replaces."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import TensorRef
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.deferred import DeferredVariable
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.optimizers.sparse_update import SparseUpdate
from graph_opt.rules.optimizers.update_inputs import Hyperparameter

# Hyperparameters that some optimizers count for each variable; all others are those of the step.
POWERS = frozenset(["beta1_power", "beta2_power"])


class UpdateNode(NamedTuple):
    """The part of an op that updates tables which says how.

    Attributes:
      inputs: Slots and hyperparameters, which follow the tables.
      attributes: What the op says of the optimizer.
    """

    inputs: List[str]
    attributes: Dict[str, Any]


def update_node(
    writer: NodeWriter,
    shards: Sequence[str],
    updates: Dict[str, SparseUpdate],
    deferred: Mapping[str, DeferredVariable],
    with_own: bool = False,
) -> UpdateNode:
    """Describes the update of some shards by one op.

    Args:
      writer: Writes hyperparameters that are constants.
      shards: Names of the variables; the first one's update speaks for all.
      updates: The stock update of each variable, by its name.
      deferred: The variables whose update is deferred, by name: all of these, or none.
      with_own: Whether variables may have `POWERS` of their own.
    """
    first = updates[shards[0]]
    # The optimizer's first slot of every shard, then its second one of every shard.
    slots = [
        updates[shard].slots[slot].input_name
        for slot in range(len(first.slots))
        for shard in shards
    ]
    averaged = first.average is not None and shards[0] in deferred
    if averaged:
        slots += [deferred[shard].average for shard in shards]
    of_shards = [updates[shard] for shard in shards]
    hyperparameters, own = _hyperparameters(
        writer, of_shards, with_own and shards[0] not in deferred
    )
    flags = sorted(name for name, is_set in first.attributes.items() if is_set)
    attributes = {
        "optimizer": tf.AttrValue(s=first.optimizer.encode()),
        "num_slots": values.integer(len(slots)),
        "averaged": tf.AttrValue(b=averaged),
        "num_hyperparameters": values.integer(len(hyperparameters)),
        "flags": values.texts([name for name in flags if name != "use_locking"]),
        "use_locking": tf.AttrValue(b="use_locking" in flags),
    }
    if own:
        attributes["own_hyperparameters"] = values.integers(own)
    if shards[0] in deferred:
        attributes["row_states"] = values.texts([deferred[shard].row_state for shard in shards])
    return UpdateNode(slots + hyperparameters, attributes)


def _hyperparameters(
    writer: NodeWriter, updates: Sequence[SparseUpdate], with_own: bool
) -> Tuple[List[str], List[int]]:
    """The hyperparameters of some updates, and the places of powers that are not the same in all.

    In the place of such a power come the values of all updates.
    """
    names = optimizer_specs()[updates[0].optimizer].hyperparameters
    inputs: List[str] = []
    own: List[int] = []
    for place, (name, first) in enumerate(zip(names, updates[0].hyperparameters)):
        given = [update.hyperparameters[place] for update in updates]
        if with_own and name in POWERS and given.count(first) < len(given):
            own.append(place)
        else:
            given = [first]
        inputs += [_written(writer, place, value) for value in given]
    return inputs, own


def _written(writer: NodeWriter, place: int, value: Hyperparameter) -> str:
    if isinstance(value, TensorRef):
        return str(value.input_name)
    return str(writer.constant("hyperparameter_{}".format(place), np.float32(value)))
