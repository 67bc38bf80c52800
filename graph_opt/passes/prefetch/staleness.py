"""Measures in sampled steps how old the rows are that lookups ahead of time have read.

    prefetch   ids -> UpdatedRowsPosition -^> lookup ─> rows, position
    main       rows -> layers -> update -^> LogUpdatedRows(ids)
    sampled    TensorBufferPeek ─> ids -> lookup again ─> MeasureStaleness(ids, rows, position)

The first two are in every step, and cost the same for any number of rows. What is sampled is no
part of a step: a session runs it by itself before one of its steps, on the batch that this step is
about to take, which a peek leaves in the buffer. Main has applied its updates by then, so what is
read again is what a synchronous step would read.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_stateful, is_value
from graph_opt.compat.stateful_ops import BRING_ROWS
from graph_opt.config.options import AsyncEmbeddingOptions, SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor, attribute_value
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.io_stages import BUFFER_TAKE
from graph_opt.passes.node_writer import NodeWriter, free_scope, tensor_of
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.exact.exact_rows import refuse_inexact
from graph_opt.passes.prefetch.exact.exact_tables import ExactTables
from graph_opt.passes.prefetch.measured_lookups import (
    MeasuredRegion,
    SampledStage,
    Sampling,
    measured_region,
)
from graph_opt.passes.prefetch.missed_updates import most_missed
from graph_opt.passes.prefetch.region_clone import cpu_of
from graph_opt.passes.prefetch.regions import BatchInputs, joined_inputs
from graph_opt.passes.prefetch.updated_rows import NO_UPDATE, UpdatedRows
from graph_opt.passes.table_kinds import kind_of
from graph_opt.passes.tasks import on_cpu
from graph_opt.passes.unused_lookups import unused_lookups
from graph_opt.rules import find_lookups

_SCOPE = "staleness"
_MOST_COUNTED = 64
_LONGEST_WAIT_MILLIS = 10000
# A sample's cost grows with the ids that it counts, so tables take turns. Looking all of them up
# again takes the time of the lookup that the step itself does not wait for.
_TURNS = 8
_FEW_IDS = 16384
PEEK = "TensorBufferPeek"


def note_updates(state: PassState, options: SessionOptions) -> PassState:
    """Has updates noted, and where in them lookups ran; finds what can be sampled."""
    wanted = options.async_embedding
    if wanted is None or not wanted.is_sampled or not wanted.staleness.sample_steps:
        return state
    if wanted.exact or options.micro_batches is not None:
        return state
    regions = _regions(state, wanted, options.fetched)
    if not regions:
        return state
    scope = free_scope(state.view, _SCOPE)
    noting = _Noting(state.view, scope, _counted_most(wanted))
    measured = [noting.region(number, region) for number, region in enumerate(regions)]
    noted = state.rewritten(noting.rewrite())
    kept = tuple(region for region in measured if region is not None)
    if not kept:
        return noted
    return dataclasses.replace(noted, name_map=noted.name_map.with_part(Sampling(kept)))


def sample_lookups(state: PassState, options: SessionOptions) -> PassState:
    """Adds what sessions run to sample a step."""
    found = state.name_map.part(Sampling)
    if found is None:
        return state
    sampled: List[SampledStage] = []
    for region in found.regions:
        copy = _Copy(state, region, options)
        try:
            stage = copy.write()
        except Refusal:
            continue
        if stage is not None:
            state = state.rewritten(Rewrite(tuple(copy.nodes)))
            sampled.append(stage)
    if not sampled:
        return state
    name_map = state.name_map.with_part(found._replace(stages=tuple(sampled)))
    return dataclasses.replace(state, name_map=name_map)


def _regions(
    state: PassState, options: AsyncEmbeddingOptions, fetched: FrozenSet[str]
) -> List[MeasuredRegion]:
    view, exact = state.view, state.name_map.part(ExactTables)
    if joined_inputs(view, options.infer_io_stage).rewrite:
        return []  # Steps choose among several inputs.
    lookups = find_lookups(view).lookups
    unused = unused_lookups(view, lookups, frozenset(map(TensorRef.parse, fetched)))
    used = [one for one in lookups if str(one.output) not in unused]
    # Of rows that are refreshed there is nothing to tell.
    bounded = {} if exact is None else exact.bounded
    used = [one for one in used if any(table.name not in bounded for table in one.tables)]
    used = [one for one in used if refuse_inexact(one, exact, options) is None]
    kinds = [kind_of(view.op(one.output.node)) for one in used]
    if not all(kind.is_sampled for kind in kinds if kind is not None):
        return []
    inputs = BatchInputs(view, options.infer_io_stage, joined_inputs(view, False))
    found = inputs.regions(used, options.threads_num).regions
    measured = [
        measured_region(view, region, inputs.flow.masks.keys(), bounded)
        for region in found
        if region.source not in inputs.choices
    ]
    return [region for region in measured if region is not None]


def _counted_most(options: AsyncEmbeddingOptions) -> int:
    """The most updates that a row can miss, and one for those that are under way."""
    return min(most_missed(options) + 2, _MOST_COUNTED)


class _Noting:
    """Writes what every step does."""

    def __init__(self, view: GraphView, scope: str, kept: int) -> None:
        self._view = view
        self._scope = scope
        self._kept = kept
        self._nodes: List[Any] = []
        self._edits = Edits(view)

    def region(self, number: int, region: MeasuredRegion) -> Optional[MeasuredRegion]:
        """The region with its position, whose tables' updates are noted; None if none is."""
        scope = "{}/{}".format(self._scope, number)
        device = cpu_of(self._view.device(region.source))
        updates = UpdatedRows(self._view, scope, device, self._kept, self._edits)
        refused = updates.note([table.shards for table in region.tables])
        if all(refused.get(table.shards[0]) == NO_UPDATE for table in region.tables):
            return None
        tables = tuple(
            dataclasses.replace(table, uncounted=refused.get(table.shards[0], ""))
            for table in region.tables
        )
        region = dataclasses.replace(region, tables=tables, position=scope + "/position")
        self._nodes += updates.write()
        self._write_position(region, device)
        return region

    def rewrite(self) -> Rewrite:
        """All of it."""
        return self._edits.rewrite(self._nodes)

    def _write_position(self, region: MeasuredRegion, device: str) -> None:
        """What runs between the ids and the lookups."""
        view = self._view
        scope, _, suffix = region.position.rpartition("/")
        writer = NodeWriter(view, scope, device)
        inputs = [tensor for tensor in region.inputs if is_value(view.dtype(tensor) or 0)]
        writer.call(
            suffix,
            "UpdatedRowsPosition",
            batch=inputs,
            tables=[table.shards[0] for table in region.tables],
        )
        for tensor in region.inputs:
            uses = [use for use in view.uses(tensor) if use.consumer in region.nodes]
            away = [use for use in uses if not _is_at(view, use.consumer, device)]
            here = {use.consumer for use in uses} - {use.consumer for use in away}
            for name in sorted(here):
                self._edits.wait(name, region.position)
            if not away:
                continue
            same = writer.call(
                "later/{}_{}".format(tensor.node, tensor.index),
                "Identity",
                waits_for=[region.position],
                input=tensor,
            )
            self._edits.move(away, same.result)
        self._nodes += writer.nodes


def _is_at(view: GraphView, name: str, device: str) -> bool:
    return on_cpu(view.device(name)) == on_cpu(device)


class _Copy:
    """Writes a copy of a stage's lookups that reads the next batch without taking it."""

    def __init__(self, state: PassState, region: MeasuredRegion, options: SessionOptions) -> None:
        assert options.async_embedding is not None
        self._view = state.view
        self._taken = state.name_map.taken
        self._region = region
        self._bins = _counted_most(options.async_embedding) + 1
        self._reached: FrozenSet[str] = frozenset()
        self._made: Dict[str, str] = {}
        self._writer = NodeWriter(state.view, region.position.rpartition("/")[0] + "/sample", "")
        self._take = ""
        self._record: List[Tensor] = []

    @property
    def nodes(self) -> List[Any]:
        """The nodes written."""
        return self._writer.nodes

    def write(self) -> Optional[SampledStage]:
        """Writes the nodes; None if the region did not move.

        Raises:
          Refusal: It cannot be copied.
        """
        view, region = self._view, self._region
        position = self._taken.get(region.position + ":0")
        if position is None:
            return None
        self._take = TensorRef.parse(position).node
        if view.op(self._take) != BUFFER_TAKE:
            return None
        self._reached = frozenset(view.descendants([region.source, self._take]))
        self._writer = NodeWriter(view, self._writer.scope, view.device(self._take))
        attributes: Dict[str, Any] = dict(view.nodes[self._take].attr)
        # A step that itself supplies its batch would wait for this, and this for the step.
        attributes["timeout_millis"] = _LONGEST_WAIT_MILLIS
        self._record = self._writer.call("peek", PEEK, **attributes).outputs("record")
        parts = [part for part in region.parts if self._crosses(part.value)]
        if not parts:
            return None
        used = list(dict.fromkeys(part.value for part in parts))
        tables = region.tables
        first = self._writer.call(
            "first", "Placeholder", dtype=tf.int32.as_datatype_enum, shape=()
        ).result
        measure = self._writer.call(
            "measure",
            "MeasureStaleness",
            ids=[self._of_batch(part.ids) for part in parts],
            used=[self._of_batch(value) for value in used],
            fresh=[self._again(value) for value in used],
            position=self._of_batch(TensorRef(region.position, 0)),
            first=first,
            tables=[table.shards[0] for table in tables],
            id_tables=[part.table for part in parts],
            table_shards=[len(table.shards) for table in tables],
            shard_rows=[count for table in tables for count in table.rows],
            strategies=[table.strategy for table in tables],
            part_values=[used.index(part.value) for part in parts],
            part_tables=[part.table for part in parts],
            part_columns=[part.column for part in parts],
            part_widths=[part.width for part in parts],
            bins=self._bins,
            least_ids=_FEW_IDS,
            turns=_TURNS,
        )
        return SampledStage(
            stage=self._take.rpartition("/")[0],
            first=str(first.ref),
            missed=str(measure.output("missed").ref),
            squares=str(measure.output("squares").ref),
            measured=str(measure.output("measured").ref),
            tables=tuple(table.name for table in tables),
            uncounted=tuple(table.uncounted for table in tables),
        )

    def _crosses(self, tensor: TensorRef) -> bool:
        return str(tensor) in self._taken

    def _of_batch(self, tensor: TensorRef) -> Tensor:
        """A tensor of the next batch."""
        found = self._taken.get(str(tensor))
        if found is not None:
            taken = TensorRef.parse(found)
            if taken.node == self._take:
                return self._record[taken.index]
        if tensor.node not in self._reached:
            return tensor_of(self._view, tensor)
        return self._again(tensor)

    def _again(self, tensor: TensorRef) -> Tensor:
        """A tensor that is computed again."""
        return tensor_of(self._view, tensor, self._copied(tensor.node))

    def _copied(self, name: str) -> str:
        if name in self._made:
            return self._made[name]
        view = self._view
        may = name in self._region.nodes or view.op(name) in BRING_ROWS
        if name == self._region.source or (not may and is_stateful(view.op(name))):
            need = "a batch that can be looked up again"
            raise Refusal("stateful_upstream", at=name, need=need, saw=view.op(name))
        original = view.nodes[name]
        # Rows that cross with the batch, to be refreshed, are read again like all others.
        inputs: List[str] = [
            (self._again if tensor.node in self._region.nodes else self._of_batch)(tensor)
            for tensor in view.inputs(name)
        ]
        for source in view.controls(name):
            if source not in self._reached:
                inputs.append("^" + source)
            elif view.op(source) in BRING_ROWS:
                inputs.append("^" + self._copied(source))
        attributes = {key: value for key, value in original.attr.items() if key != "_class"}
        copy = self._writer.node(name, original.op, inputs, original.device, **attributes)
        self._move_colocation(original, copy)
        self._made[name] = copy.name
        return str(copy.name)

    def _move_colocation(self, original: Any, copy: Any) -> None:
        """A copy is where the variables are that its original is colocated with."""
        if "_class" not in original.attr:
            return
        groups = [text.decode("utf-8") for text in original.attr["_class"].list.s]
        outside = [each for each in groups if each.partition("@")[2] not in self._reached]
        if outside:
            copy.attr["_class"].CopyFrom(attribute_value(outside))
