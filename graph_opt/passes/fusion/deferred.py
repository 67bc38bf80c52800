"""Tables whose rows are updated late: what their update needs, and the state that it keeps.

A row that no batch looks up moves by amounts that are known beforehand, so it is moved only when it
is next read. Until then the table and its slots hold values of an earlier step, and everything that
reads them must wait for an op that catches them up.
"""

from __future__ import annotations

import dataclasses
from typing import (
    Any,
    Container,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from graph_opt.compat import tf
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.deferred_rows import row_state_name
from graph_opt.ops.optimizers import optimizer_specs
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
      average: Name of the variable with the table's average over time, or "".
      moves_every_row: Whether weights and slots of a row change without a gradient. If they do not,
        only the average is behind.
    """

    table: str
    slots: Tuple[str, ...]
    optimizer: str
    row_state: str
    is_resource: bool
    device: str
    average: str = ""
    moves_every_row: bool = True

    @property
    def inputs(self) -> Tuple[str, ...]:
        """The slots, and the average."""
        return (*self.slots, self.average) if self.average else self.slots

    @property
    def variables(self) -> Tuple[str, ...]:
        """All whose readers or writers have to wait."""
        return (self.table, *self.inputs) if self.moves_every_row else (self.table, self.average)

    def is_behind(self, variable: str) -> bool:
        """Whether rows of this variable, one of `variables`, may have missed steps."""
        return self.moves_every_row or variable == self.average


class Need(NamedTuple):
    """What rows are caught up for: one op serves shards that have this in common.

    Attributes:
      optimizer: Name of the spec.
      averaged: Whether the shards have averages.
      of_average: Whether it is these that are read.
    """

    optimizer: str
    averaged: bool = False
    of_average: bool = False


@dataclasses.dataclass(frozen=True)
class DeferredVariables:
    """All such tables of a graph.

    Attributes:
      variables: One for each shard.
      catch_up_all: A node that catches up all rows of all of them.
      current_values: Maps tensors with the whole value of a variable, of which rows may be behind,
        to that value once all rows are current.
    """

    variables: Tuple[DeferredVariable, ...]
    catch_up_all: str
    current_values: Mapping[str, str] = dataclasses.field(default_factory=dict)


def deferred_variable(view: GraphView, update: SparseUpdate) -> DeferredVariable:
    """Describes the table of an update that is to be deferred.

    Raises:
      Refusal: update_not_deferrable.
    """
    device = view.device(update.table)
    if device and tf.DeviceSpec.from_string(device).device_type not in (None, "CPU"):
        raise _refusal(update, "a table on a CPU", device)
    if update.moves_every_row:
        _require_hyperparameters(update)
    reads = [find_read(view, slot) for slot in update.slots]
    return DeferredVariable(
        table=update.table,
        slots=tuple(read.variable for read in reads if read is not None),
        optimizer=update.optimizer,
        row_state=_state_name(view, update.table),
        is_resource=view.op(update.table) == "VarHandleOp",
        device=device,
        average=update.average.average if update.average else "",
        moves_every_row=update.moves_every_row,
    )


def by_variable(deferred: Mapping[str, DeferredVariable]) -> Dict[str, DeferredVariable]:
    """The same tables, by the names of their averages, too."""
    averages = {shard.average: shard for shard in deferred.values() if shard.average}
    return {**deferred, **averages}


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
    """What an op that catches up rows of some shards says of them.

    Args:
      shards: Names of the variables, in the op's order: tables, or averages in their place.
      deferred: The deferred ones among all tables (`by_variable`); the op skips the others.
      need: The op skips shards of which another need is known, too.
      served: The places of the shards whose rows the op reads, which differ; it skips the others.
        None for all.
    """

    def __init__(
        self,
        shards: Sequence[str],
        deferred: Mapping[str, DeferredVariable],
        need: Need,
        served: Optional[Container[int]] = None,
    ) -> None:
        found = [
            deferred.get(name) if served is None or place in served else None
            for place, name in enumerate(shards)
        ]
        self._need = need
        self._of = [
            shard if shard is not None and _need_of(shard, name) == need else None
            for name, shard in zip(shards, found)
        ]
        self._shards = [shard.table if shard else name for name, shard in zip(shards, self._of)]
        self._first = next(shard for shard in self._of if shard is not None)

    @property
    def is_resource(self) -> bool:
        """Whether they are resource variables."""
        return self._first.is_resource

    @property
    def inputs(self) -> Dict[str, Any]:
        """The shards; then the optimizer's first slot of every shard, and so on, then averages."""
        slots = [
            name if shard is None else shard.inputs[number]
            for number in range(len(self._first.inputs))
            for name, shard in zip(self._shards, self._of)
        ]
        return {
            "tables": [TensorRef(name, 0) for name in self._shards],
            "slots": [TensorRef(name, 0) for name in slots],
        }

    @property
    def attributes(self) -> Dict[str, Any]:
        """Those that all these ops have."""
        found: Dict[str, Any] = dict(
            optimizer=self._first.optimizer,
            averaged=self._need.averaged,
            row_states=[shard.row_state if shard else "" for shard in self._of],
        )
        if not self.is_resource:
            found["_class"] = ["loc:@" + name for name in dict.fromkeys(self._shards)]
        return found

    @property
    def attributes_of_rows(self) -> Dict[str, Any]:
        """Those that the ops have which catch up some rows."""
        return {**self.attributes, "weights_only": not self._need.of_average}

    def op(self, kind: str) -> str:
        """The op type of this kind for these variables."""
        return (_RESOURCE if self.is_resource else "") + kind


def needs_of(shards: Iterable[str], deferred: Mapping[str, DeferredVariable]) -> List[Need]:
    """What readers of rows of these variables need: one op each; none where all are current."""
    found = [
        _need_of(deferred[name], name)
        for name in shards
        if name in deferred and deferred[name].is_behind(name)
    ]
    return list(dict.fromkeys(found))


def _need_of(shard: DeferredVariable, variable: str) -> Need:
    return Need(shard.optimizer, bool(shard.average), variable == shard.average)
