"""What the names of the user's graph stand for after it has been rewritten."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, FrozenSet, Mapping, Optional, Tuple

from graph_opt.passes.fusion.deferred import DeferredVariables
from graph_opt.passes.pipeline.pipelined_names import PipelinedNames
from graph_opt.passes.prefetch.exact_tables import ExactTables
from graph_opt.passes.prefetch.measured_lookups import MeasuredRegion, SampledStage
from graph_opt.passes.shard_tables.divided_variables import DividedVariables


@dataclasses.dataclass(frozen=True)
class Translation:
    """What passes tell each other and the session about the nodes of the user's graph.

    A tensor's substitute may itself be in `taken`, so look in `substitutes` first.

    Attributes:
      substitutes: Maps the result of each fused lookup to the tensor that replaces it.
      taken: Maps each boundary tensor to the output of the take that passes it to main.
      up_to_date: Maps tensors with the whole value of a variable, of which rows may be behind, to
        that value once all rows are current.
      deferred: The tables whose rows may be behind; None if there are none.
      divided: The variables of which this rank has some rows; None if there are none.
      exact: The tables whose rows a step has as they are then, although lookups ran ahead; None if
        that was not asked for.
      measured: Lookups of which it can be told how old the rows are that they have read ahead.
      sampled: What sessions run to tell it.
      prefetched: Nodes whose values exist only in prefetch.
      dead: Nodes that remain in the graph although no step runs them any more.
      while_training: Maps tensors that a step which trains computes for each micro-batch to their
        values for the whole batch; the tensors themselves compute the whole batch again.
      micro_batches: Name scope of what only such a step runs; "" if batches are not divided.
      summed_batches: Name scope of what computes further batches of a step; "" if there are none.
      pipelined: What names mean in steps whose updates a stage applies; None if no stage does.
      moved_by: The passes that moved data edges, by node and input.
      is_stopped: Whether steps run the graph as its user built it, in place of what passes made.
    """

    substitutes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    taken: Mapping[str, str] = dataclasses.field(default_factory=dict)
    up_to_date: Mapping[str, str] = dataclasses.field(default_factory=dict)
    deferred: Optional[DeferredVariables] = None
    divided: Optional[DividedVariables] = None
    exact: Optional[ExactTables] = None
    measured: Tuple[MeasuredRegion, ...] = ()
    sampled: Tuple[SampledStage, ...] = ()
    prefetched: FrozenSet[str] = frozenset()
    dead: FrozenSet[str] = frozenset()
    while_training: Mapping[str, str] = dataclasses.field(default_factory=dict)
    micro_batches: str = ""
    summed_batches: str = ""
    pipelined: Optional[PipelinedNames] = None
    moved_by: Mapping[Tuple[str, int], Tuple[str, ...]] = dataclasses.field(default_factory=dict)
    is_stopped: bool = False

    @property
    def not_run(self) -> FrozenSet[str]:
        """Nodes of the user's graph that no step of main runs."""
        return self.prefetched.union(self.dead)

    def with_dead(self, dead: AbstractSet[str]) -> Translation:
        """The same translation with more nodes that no step runs."""
        return dataclasses.replace(self, dead=self.dead.union(dead))


UNCHANGED = Translation()
