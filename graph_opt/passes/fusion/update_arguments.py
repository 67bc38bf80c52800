"""What an op that updates tables takes over from the updates that it replaces."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from graph_opt.graph.view import TensorRef
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.passes.fusion.deferred import DeferredVariable
from graph_opt.passes.node_writer import NodeWriter, Operand
from graph_opt.rules.optimizers.sparse_update import SparseUpdate
from graph_opt.rules.optimizers.update_inputs import Hyperparameter

# Hyperparameters that some optimizers count for each variable; all others are those of the step.
POWERS = frozenset(["beta1_power", "beta2_power"])


def update_arguments(
    writer: NodeWriter,
    shards: Sequence[str],
    updates: Dict[str, SparseUpdate],
    deferred: Mapping[str, DeferredVariable],
    with_own: bool = False,
) -> Dict[str, Any]:
    """The arguments of an op that updates some shards which say how.

    Args:
      writer: Writes hyperparameters that are constants.
      shards: Names of the variables; the first one's update speaks for all.
      updates: The stock update of each variable, by its name.
      deferred: The variables whose update is deferred, by name: all of these, or none.
      with_own: Whether variables may have `POWERS` of their own.
    """
    first = updates[shards[0]]
    # The optimizer's first slot of every shard, then its second one of every shard.
    slots = [updates[shard].slots[slot] for slot in range(len(first.slots)) for shard in shards]
    averaged = first.average is not None and shards[0] in deferred
    if averaged:
        slots += [TensorRef(deferred[shard].average, 0) for shard in shards]
    of_shards = [updates[shard] for shard in shards]
    hyperparameters, own = _hyperparameters(
        writer, of_shards, with_own and shards[0] not in deferred
    )
    flags = sorted(name for name, is_set in first.attributes.items() if is_set)
    return dict(
        slots=slots,
        hyperparameters=hyperparameters,
        optimizer=first.optimizer,
        averaged=averaged,
        own_hyperparameters=own,
        flags=[name for name in flags if name != "use_locking"],
        use_locking="use_locking" in flags,
        row_states=[deferred[shard].row_state for shard in shards if shard in deferred],
    )


def _hyperparameters(
    writer: NodeWriter, updates: Sequence[SparseUpdate], with_own: bool
) -> Tuple[List[Operand], List[int]]:
    """The hyperparameters of some updates, and the places of powers that are not the same in all.

    In the place of such a power come the values of all updates.
    """
    names = optimizer_specs()[updates[0].optimizer].hyperparameters
    inputs: List[Operand] = []
    own: List[int] = []
    for place, (name, first) in enumerate(zip(names, updates[0].hyperparameters)):
        given = [update.hyperparameters[place] for update in updates]
        if with_own and name in POWERS and given.count(first) < len(given):
            own.append(place)
        else:
            given = [first]
        inputs += [_written(writer, place, value) for value in given]
    return inputs, own


def _written(writer: NodeWriter, place: int, value: Hyperparameter) -> Operand:
    if isinstance(value, TensorRef):
        return value
    return writer.constant("hyperparameter_{}".format(place), np.float32(value))
