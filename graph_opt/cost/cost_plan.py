"""What a step costs before a rewrite and after: GraphDefs in, a `CostPlan` out."""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.cost.assumptions import Assumptions
from graph_opt.cost.counted_graph import counted_graph
from graph_opt.cost.memory import memory_by_device, variable_bytes
from graph_opt.cost.planned_graph import PlannedGraph
from graph_opt.cost.rows_read import table_of
from graph_opt.cost.step_cost import StepCounter
from graph_opt.cost.step_runs import find_step
from graph_opt.cost.unknown import SizeUnknown
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.library import register_ops
from graph_opt.reporting.cost import CostPlan, Rates, StepCost, UnknownCost
from graph_opt.reporting.report import Report
from graph_opt.reporting.tables import first_of
from graph_opt.rules import find_lookups

_NOT_COUNTED = "the work of layers and reading files is not counted"


def cost_plan(
    planned: PlannedGraph, assumptions: Assumptions, rates: Optional[Rates] = None
) -> CostPlan:
    """Counts what a step costs before and after.

    Args:
      planned: The graphs.
      assumptions: What is told about batches.
      rates: How fast a machine is, for an estimate of time.

    Raises:
      tf.errors.InvalidArgumentError: A graph is not valid, or nothing tells what a step is.

    Example:
      >>> plan = cost_plan(PlannedGraph(graph_def), Assumptions(batch=512))
      >>> plan.before.calls
      109
    """
    register_ops()
    with collection_paused():
        return _planned(planned, assumptions, rates)


def _planned(planned: PlannedGraph, assumptions: Assumptions, rates: Optional[Rates]) -> CostPlan:
    graph = counted_graph(planned.graph_def)
    view = graph.view
    if view.topological_order() is None:
        raise tf.errors.InvalidArgumentError(
            None, None, "the graph has a cycle that is not a while loop: no step of it can run"
        )
    search = find_lookups(view)
    lookups = search.lookups
    step = find_step(view, planned.fetches, lookups, graph.bodies.nodes.keys())
    counter = StepCounter(graph, lookups, assumptions)
    before = _with_copies(counter.cost(step.ends), view, planned.report)
    unknown = [*counter.unknown, *map(_not_reached, search.refusals)]
    notes = [*assumptions.notes, *counter.notes]
    after: Optional[StepCost] = None
    if planned.rewritten is not None:
        last = counted_graph(planned.rewritten)
        other = StepCounter(last, find_lookups(last.view).lookups, assumptions)
        ends = [TensorRef.parse(name).node for name in planned.rewritten_fetches]
        after = other.cost(ends or step.ends)
        unknown.extend(other.unknown)
        notes.extend(other.notes)
    tables = {table.name for lookup in lookups for table in lookup.tables}
    memory, of_unknown_size = memory_by_device(view, tables)
    if step.left:
        notes.append(_left_out(step.left))
    return CostPlan(
        ends=step.ends,
        batch=assumptions.batch,
        before=before,
        after=after,
        memory=memory,
        unknown=_by_reason([*unknown, *of_unknown_size]),
        assumptions=(*dict.fromkeys(notes), _NOT_COUNTED),
        rates=rates,
    )


def _not_reached(refusal: Refusal) -> SizeUnknown:
    return SizeUnknown(refusal.node, "its lookup is one of those left as they are", "")


def _left_out(ends: Sequence[str]) -> str:
    return "steps that end at {} are others (--fetch)".format(first_of(ends, 1))


def _with_copies(cost: StepCost, view: GraphView, report: Report) -> StepCost:
    """With the tables that TensorFlow copies, as it makes one op of gathers and sums."""
    gathers = (*report.whole_table_reads_removed, *report.protected_gathers)
    tables: Set[str] = {name for name in (table_of(view, each) for each in gathers) if name}
    size = 0.0
    for name in tables:
        try:
            size += variable_bytes(view, name)
        except SizeUnknown:
            continue
    return dataclasses.replace(cost, tables_copied=len(tables), copied_bytes=size)


def _by_reason(errors: Sequence[SizeUnknown]) -> Tuple[UnknownCost, ...]:
    """One entry for each reason, with the first that it was found for."""
    names: Dict[Tuple[str, str], List[str]] = {}
    options: Dict[Tuple[str, str], str] = {}
    for error in errors:
        key = error.why, error.option.split(" ")[0]
        options.setdefault(key, error.option)
        known = names.setdefault(key, [])
        known.append(error.tensor)
    return tuple(
        UnknownCost(found[0], key[0], options[key], len(set(found)) - 1)
        for key, found in names.items()
    )
