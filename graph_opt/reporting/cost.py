"""What a step costs, as data for people: counts that are told without running the graph."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Tuple


@dataclasses.dataclass(frozen=True)
class LinkCost:
    """What goes from one task to another in a step.

    Attributes:
      source: Task that sends.
      target: Task that receives.
      tensors: Tensors, each of which is a call.
      bytes: Bytes of those whose size is known.
    """

    source: str
    target: str
    tensors: int
    bytes: float


@dataclasses.dataclass(frozen=True)
class StepCost:
    """What one step costs, that of stages' threads included.

    Attributes:
      ops: Nodes that run, without constants and what TensorFlow folds into some.
      ops_ahead: Those of them that run in stages, beside the step.
      rows: Rows of tables that lookups read.
      row_bytes: Bytes of these rows.
      links: What crosses between tasks.
      calls: Calls of gRPC between tasks: one for a tensor, two for each run on a task.
      call_bytes: Bytes of what these calls have beside tensors, about.
      waits: Calls that the step waits for one after the other, at least.
      staged_tensors: Tensors that stages hand to the step.
      staged_bytes: Bytes of those whose size is known.
      collectives: Calls of collectives.
      collective_bytes: What this rank gives to them.
      tables_copied: Tables that TensorFlow copies as a whole, as it rewrites their gathers.
      copied_bytes: Bytes of these tables.
    """

    ops: int = 0
    ops_ahead: int = 0
    rows: float = 0.0
    row_bytes: float = 0.0
    links: Tuple[LinkCost, ...] = ()
    calls: int = 0
    call_bytes: float = 0.0
    waits: int = 0
    staged_tensors: int = 0
    staged_bytes: float = 0.0
    collectives: int = 0
    collective_bytes: float = 0.0
    tables_copied: int = 0
    copied_bytes: float = 0.0

    @property
    def tensors(self) -> int:
        """Tensors that cross between tasks."""
        return sum(link.tensors for link in self.links)

    @property
    def tensor_bytes(self) -> float:
        """Bytes of the tensors that cross between tasks."""
        return sum(link.bytes for link in self.links)

    @property
    def bytes(self) -> float:
        """Bytes between tasks: tensors, and what calls have beside them."""
        return self.tensor_bytes + self.call_bytes


@dataclasses.dataclass(frozen=True)
class DeviceMemory:
    """What variables take on a device.

    Attributes:
      device: The device; "" if none is requested.
      tables: Bytes of the tables that lookups read.
      slots: Bytes of optimizers' slots.
      others: Bytes of other variables.
    """

    device: str
    tables: float
    slots: float
    others: float


@dataclasses.dataclass(frozen=True)
class UnknownCost:
    """Something that is not in the numbers, as nobody told its size.

    Attributes:
      name: A tensor or a table.
      why: What is not known.
      option: What would tell it.
      count: How many others are not known for the same reason.
    """

    name: str
    why: str
    option: str
    count: int = 0


@dataclasses.dataclass(frozen=True)
class Rates:
    """How fast a machine does what a plan counts.

    Attributes:
      call_seconds: Of a call of gRPC to another task, one after the other.
      call_cpu_seconds: How long a call keeps others back, when many are under way.
      link_bytes_per_second: Between two tasks.
      memory_bytes_per_second: Of rows that are read here and there.
      op_seconds: Of an op that does nothing.
      where: What was measured.
    """

    call_seconds: float
    call_cpu_seconds: float
    link_bytes_per_second: float
    memory_bytes_per_second: float
    op_seconds: float
    where: str


@dataclasses.dataclass(frozen=True)
class CostPlan:
    """What a step costs before a rewrite and after.

    Attributes:
      ends: The nodes at which a step ends.
      batch: Rows of a batch; None if nobody told.
      before: The graph's own step.
      after: That of the rewritten graph; None if there is none.
      memory: What variables take, by device.
      unknown: What is not in the numbers.
      assumptions: What was taken for granted, a line each.
      rates: How fast this machine is; None if that was not measured.
    """

    ends: Tuple[str, ...]
    batch: Optional[int]
    before: StepCost
    after: Optional[StepCost] = None
    memory: Tuple[DeviceMemory, ...] = ()
    unknown: Tuple[UnknownCost, ...] = ()
    assumptions: Tuple[str, ...] = ()
    rates: Optional[Rates] = None

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, strings and numbers, with the sums that the text shows."""
        plain = dataclasses.asdict(self)
        for label, cost in (("before", self.before), ("after", self.after)):
            if cost is not None:
                plain[label].update(
                    tensors=cost.tensors, tensor_bytes=cost.tensor_bytes, bytes=cost.bytes
                )
                if self.rates is not None:
                    plain[label]["estimated_seconds"] = estimated_seconds(cost, self.rates)
        return plain


def estimated_seconds(cost: StepCost, rates: Rates) -> float:
    """How long a step keeps ops, memory and the network busy, one after the other.

    What matrix products and other layers compute is not in it, and nothing is taken to overlap.
    """
    return (
        cost.ops * rates.op_seconds
        + (cost.row_bytes + cost.copied_bytes) / rates.memory_bytes_per_second
        + cost.waits * rates.call_seconds
        + cost.calls * rates.call_cpu_seconds
        + cost.bytes / rates.link_bytes_per_second
    )
