"""Tables whose rows are updated late: what their update needs, and the state that it keeps.

A row that no batch looks up moves by amounts that are known beforehand, so it is moved only when it
is next read. Until then the table and its slots hold values of an earlier step, and everything that
reads them must wait for an op that brings them to date.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.deferred_rows import row_state_name
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.passes import attribute_values as values
from graph_opt.rules.match.table import find_read
from graph_opt.rules.optimizers.sparse_update import SparseUpdate

_RESOURCE = "Resource"


@dataclasses.dataclass(frozen=True)
class DeferredVariable:
    """A table, or a shard of one, whose update is deferred.

    Attributes:
      table: Name of the variable.
      slots: Names of the optimizer's variables, in the order of its spec.
      optimizer: Name of the spec.
      row_state: Name of what the table's device remembers of its rows.
      is_resource: Whether table and slots are resource variables.
      device: Device string of the table.
    """

    table: str
    slots: Tuple[str, ...]
    optimizer: str
    row_state: str
    is_resource: bool
    device: str

    @property
    def variables(self) -> Tuple[str, ...]:
        """The table and its slots."""
        return (self.table, *self.slots)


@dataclasses.dataclass(frozen=True)
class DeferredVariables:
    """All such tables of a graph.

    Attributes:
      variables: One for each shard.
      all_to_date: A node that brings all rows of all of them to date.
    """

    variables: Tuple[DeferredVariable, ...]
    all_to_date: str


def deferred_variable(view: GraphView, update: SparseUpdate) -> DeferredVariable:
    """Describes the table of an update that is to be deferred.

    Raises:
      Refusal: update_not_deferrable.
    """
    device = view.device(update.table)
    if device and tf.DeviceSpec.from_string(device).device_type not in (None, "CPU"):
        raise _refusal(update, "a table on a CPU", device)
    _require_hyperparameters(update)
    reads = [find_read(view, slot) for slot in update.slots]
    return DeferredVariable(
        table=update.table,
        slots=tuple(read.variable for read in reads if read is not None),
        optimizer=update.optimizer,
        row_state=_state_name(view, update.table),
        is_resource=view.op(update.table) == "VarHandleOp",
        device=device,
    )


def _require_hyperparameters(update: SparseUpdate) -> None:
    """Refuses constants with which the drift of a row has no bound or no meaning."""
    named = dict(zip(optimizer_specs()[update.optimizer].hyperparameters, update.hyperparameters))
    for name, value in named.items():
        if isinstance(value, TensorRef):
            continue
        if name == "epsilon" and not value > 0:
            raise _refusal(update, "an epsilon greater than 0", str(value))
        if name in ("beta1", "beta2") and not 0 <= value < 1:
            raise _refusal(update, "a {} of at least 0 and less than 1".format(name), str(value))


def _refusal(update: SparseUpdate, need: str, saw: str) -> Refusal:
    return Refusal("update_not_deferrable", at=update.table, need=need, saw=saw)


def _state_name(view: GraphView, variable: str) -> str:
    shared, container = (_text(view, variable, key) for key in ("shared_name", "container"))
    return row_state_name(variable, shared, container)


def _text(view: GraphView, name: str, key: str) -> str:
    value = view.attribute(name, key)
    return "" if value is None else str(value.s.decode("utf-8"))


class ShardInputs:
    """What an op that brings rows of some shards to date says of them.

    Args:
      shards: Names of the variables, in the op's order.
      deferred: The deferred ones among all tables, by name; the op skips the others.
      optimizer: The op skips shards of another optimizer, too.
    """

    def __init__(
        self, shards: Sequence[str], deferred: Mapping[str, DeferredVariable], optimizer: str
    ) -> None:
        self._shards = tuple(shards)
        self._of = [_with_optimizer(deferred.get(name), optimizer) for name in shards]
        self._first = next(shard for shard in self._of if shard is not None)

    @property
    def is_resource(self) -> bool:
        """Whether they are resource variables."""
        return self._first.is_resource

    @property
    def inputs(self) -> List[str]:
        """The shards, and then the optimizer's first slot of every shard, and so on."""
        slots = [
            name if shard is None else shard.slots[number]
            for number in range(len(self._first.slots))
            for name, shard in zip(self._shards, self._of)
        ]
        return [*self._shards, *slots]

    @property
    def attributes(self) -> Dict[str, Any]:
        """Those that all these ops have."""
        found = dict(
            optimizer=tf.AttrValue(s=self._first.optimizer.encode()),
            num_slots=values.integer(len(self._first.slots) * len(self._shards)),
            row_states=values.texts([shard.row_state if shard else "" for shard in self._of]),
        )
        if not self.is_resource:
            found["_class"] = values.colocated(self._shards)
        return found

    def op(self, kind: str) -> str:
        """The op type of this kind for these variables."""
        return (_RESOURCE if self.is_resource else "") + kind


def optimizers_of(shards: Iterable[str], deferred: Mapping[str, DeferredVariable]) -> List[str]:
    """The optimizers of the deferred shards among these."""
    found = [deferred[name].optimizer for name in shards if name in deferred]
    return list(dict.fromkeys(found))


def _with_optimizer(
    shard: Optional[DeferredVariable], optimizer: str
) -> Optional[DeferredVariable]:
    return shard if shard is not None and shard.optimizer == optimizer else None
