"""What one step of one graph costs."""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Iterable, List, Sequence, Tuple

from graph_opt.cost.assumptions import Assumptions
from graph_opt.cost.collectives import is_collective, tensors_given
from graph_opt.cost.counted_graph import CountedGraph
from graph_opt.cost.folded import folded_nodes
from graph_opt.cost.looked_up_ids import LookedUpIds
from graph_opt.cost.rows_read import ROW_READERS, rows_read
from graph_opt.cost.stage_records import StageRecords
from graph_opt.cost.step_runs import MAIN, Run, alive, runs_of
from graph_opt.cost.tensor_sizes import TensorSizes
from graph_opt.cost.transfers import (
    BYTES_OF_A_CALL,
    CALLS_OF_A_RUN,
    Tasks,
    crossings,
    longest_wait,
    runs_on_other_tasks,
)
from graph_opt.cost.unknown import SizeUnknown
from graph_opt.graph.view import TensorRef
from graph_opt.ops.stage_nodes import BUFFER_PUT
from graph_opt.ops.stage_spec import KIND_IO
from graph_opt.passes.transfers.sometimes_run import sometimes_run
from graph_opt.reporting.cost import LinkCost, StepCost
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.op_names import VARIABLES


class StepCounter:
    """Counts what a step costs.

    Args:
      graph: A graph with static shapes, and the bodies of its calls.
      lookups: Its lookups.
      assumptions: What is told about batches.

    Attributes:
      unknown: What is not in the numbers.
    """

    def __init__(
        self, graph: CountedGraph, lookups: Sequence[Lookup], assumptions: Assumptions
    ) -> None:
        view = graph.view
        records = StageRecords(view)
        self._graph, self._view = graph, view
        self._order = list(view.topological_order() or view.nodes)
        ids = LookedUpIds(view, lookups, records)
        self._sizes = TensorSizes(view, ids, records, assumptions)
        self._folded = folded_nodes(view, self._order)
        self._tasks = Tasks(view)
        self.unknown: List[SizeUnknown] = []

    @property
    def notes(self) -> Tuple[str, ...]:
        """What was assumed on the way."""
        return tuple(self._sizes.notes)

    def cost(self, ends: Sequence[str]) -> StepCost:
        """What a step costs that ends at these nodes."""
        runs = runs_of(self._view, ends)
        names = alive(runs)
        self._sizes.follow([name for name in self._order if name in names])
        self._note_conditions(names)
        links, calls = self._links(runs)
        rows = [self._rows(run) for run in runs]
        staged = self._staged(runs)
        collectives = self._collectives(runs)
        return StepCost(
            ops=sum(self._count(run) for run in runs),
            ops_ahead=sum(self._count(run) for run in runs if run.name != MAIN),
            rows=sum(count for count, _ in rows),
            row_bytes=sum(size for _, size in rows),
            links=links,
            calls=calls,
            call_bytes=BYTES_OF_A_CALL * calls,
            waits=longest_wait(self._view, runs[0], self._tasks, self._order, self._folded)
            + (runs_on_other_tasks(runs[0], self._tasks, self._folded) > 0),
            staged_tensors=len(staged),
            staged_bytes=self._bytes(staged),
            collectives=len(collectives),
            collective_bytes=self._bytes(tensor for given in collectives for tensor in given),
        )

    def _count(self, run: Run) -> int:
        view, folded = self._view, self._folded
        return sum(name not in folded and view.op(name) not in VARIABLES for name in run.nodes)

    def _links(self, runs: Sequence[Run]) -> Tuple[Tuple[LinkCost, ...], int]:
        tensors: Dict[Tuple[str, str], List[TensorRef]] = {}
        calls = 0
        counts: Dict[Tuple[str, str], int] = {}
        for run in runs:
            calls += CALLS_OF_A_RUN * runs_on_other_tasks(run, self._tasks, self._folded)
            for one in crossings(self._view, run, self._tasks, self._folded):
                link = one.source, one.target
                counts[link] = counts.get(link, 0) + 1
                sent = tensors.setdefault(link, [])
                if one.tensor is not None:
                    sent.append(one.tensor)
        links = tuple(
            LinkCost(source, target, count, self._bytes(tensors[source, target]))
            for (source, target), count in sorted(counts.items())
        )
        return links, calls + sum(counts.values())

    def _rows(self, run: Run) -> Tuple[float, float]:
        rows, size = 0.0, 0.0
        for name in run.nodes:
            if self._view.op(name) not in ROW_READERS:
                continue
            try:
                read = rows_read(self._sizes, name)
            except SizeUnknown as error:
                self.unknown.append(error)
                continue
            if read is not None:
                rows, size = rows + read.rows, size + read.bytes
        return rows, size

    def _staged(self, runs: Sequence[Run]) -> List[TensorRef]:
        """What stages of lookups hand to main: their input comes through an IO stage."""
        view = self._view
        puts = [
            name
            for run in runs
            if run.name != MAIN and run.kind != KIND_IO
            for name in run.nodes
            if view.op(name) == BUFFER_PUT
        ]
        return [tensor for put in puts for tensor in view.inputs(put)]

    def _bytes(self, tensors: Iterable[TensorRef]) -> float:
        return sum(self._known(self._sizes.bytes, tensor) for tensor in tensors)

    def _known(self, find: Callable[[TensorRef], float], tensor: TensorRef) -> float:
        try:
            return find(tensor)
        except SizeUnknown as error:
            self.unknown.append(error)
            return 0.0

    def _collectives(self, runs: Sequence[Run]) -> List[Sequence[TensorRef]]:
        """What each message of a collective is given: one tensor, or none."""
        view = self._view
        found: List[Sequence[TensorRef]] = []
        for name in (name for run in runs for name in run.nodes):
            if is_collective(view.op(name)):
                given = tensors_given(view.op(name), view.inputs(name))
                found.extend([[tensor] for tensor in given] or [[]])
        return found

    def _note_conditions(self, names: AbstractSet[str]) -> None:
        for note in self._graph.notes(names):
            self._sizes.note(note)
        conditional = sometimes_run(self._view).intersection(names)
        if conditional:
            self._sizes.note(
                "{} nodes in conditionals and loops are counted as if each ran once".format(
                    len(conditional)
                )
            )
