"""Pulls several batches from a source for one step, each of them once and in order.

In the step itself:     source -> batch 0;  copy of the source, after it -> batch 1
Where the step's lookups or preprocessing run ahead, by a stage, so that all batches arrive as one:

    copy 0 -> copy 1 -> put | take -> batch 0, batch 1

That is an IO stage, so the passes that follow see a graph with one source and more lookups.

The input's end, wherever in a group of batches it comes, is that of the step or of the stage.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

from graph_opt.compat.op_definitions import is_value
from graph_opt.config.options import SessionOptions
from graph_opt.graph.control_flow_ops import CONTROL_FLOW
from graph_opt.graph.edits import Edits
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.stage_spec import KIND_IO, StageSpec
from graph_opt.passes.io_stages import is_buffer
from graph_opt.passes.node_writer import NodeWriter, Record, stage_names
from graph_opt.passes.prefetch.choices import fed_iterators
from graph_opt.passes.prefetch.fetch_guard import guard_source
from graph_opt.passes.prefetch.region_clone import cpu_of, stage_that_fills


class Pulled(NamedTuple):
    """The batches of one source.

    Attributes:
      batches: For each batch but the first, what stands for the source's tensors.
      substitutes: What stands for them in the first, unless they do themselves.
      nodes: New NodeDefs.
      edits: Make what read the sources read what stands for them.
    """

    batches: List[Dict[TensorRef, str]]
    substitutes: Dict[str, str]
    nodes: List[object]
    edits: Edits


def pull(
    view: GraphView, sources: Sequence[str], number: int, options: SessionOptions, scope: str
) -> Pulled:
    """Writes what pulls this many batches from each source.

    Args:
      view: The graph.
      sources: The nodes that return batches.
      number: How many batches a step takes.
      options: Of the session, for what runs ahead.
      scope: Name scope of the new nodes.

    Raises:
      Refusal: no_source_to_pull.
    """
    pulled = Pulled([{} for _ in range(number - 1)], {}, [], Edits(view))
    names = stage_names(view, scope + "_io")
    for source in sources:
        if _runs_ahead(view, source, options):
            _pull_ahead(view, source, number, _spec(view, source, next(names), options), pulled)
        else:
            _pull_in_step(view, source, NodeWriter(view, scope, ""), pulled)
    return pulled


def _runs_ahead(view: GraphView, source: str, options: SessionOptions) -> bool:
    asynchronous = options.async_embedding
    if asynchronous is not None and (asynchronous.infer_io_stage or is_buffer(view, source)):
        return True
    return asynchronous is None and options.smart_stage is not None


def _pull_in_step(view: GraphView, source: str, writer: NodeWriter, pulled: Pulled) -> None:
    before = source
    for place, batch in enumerate(pulled.batches, 1):
        before = _copy(view, source, str(place), before, writer)
        batch.update(_outputs(view, source, before))
    pulled.nodes.extend(writer.nodes)


def _pull_ahead(view: GraphView, source: str, number: int, spec: StageSpec, pulled: Pulled) -> None:
    _refuse_chosen(view, source)
    writer = NodeWriter(view, spec.name, cpu_of(view.device(source)))
    used = sorted(_outputs(view, source, source))
    inputs: List[str] = []
    before = ""
    for place in range(number):
        before = _copy(view, source, str(place), before, writer)
        inputs.extend(TensorRef(before, tensor.index).input_name for tensor in used)
    dtypes = [view.dtype(tensor) or 0 for tensor in used]
    shapes = [view.shape(tensor) for tensor in used]
    take = writer.put_and_take(spec, Record(inputs, dtypes * number, shapes * number))
    taken = [TensorRef(take.name, index) for index in range(len(inputs))]
    for place, batch in enumerate(pulled.batches, 1):
        of_place = taken[place * len(used) : (place + 1) * len(used)]
        batch.update((tensor, one.input_name) for tensor, one in zip(used, of_place))
    for tensor, one in zip(used, taken):
        pulled.substitutes[str(tensor)] = str(one)
        pulled.edits.replace(tensor, one.input_name)
    pulled.edits.replace_waits(source, take.name)
    guard_source(writer, view, source, pulled.edits)
    pulled.nodes.extend(writer.nodes)


def _spec(view: GraphView, source: str, name: str, options: SessionOptions) -> StageSpec:
    spec = StageSpec(name, KIND_IO)
    upstream: Tuple[str, ...] = ()
    if is_buffer(view, source):
        upstream = tuple(filter(None, [stage_that_fills(view, source)]))
    asynchronous, smart = options.async_embedding, options.smart_stage
    if asynchronous is not None:
        spec = spec._replace(
            timeout_millis=asynchronous.timeout_millis, priority=asynchronous.prefetch_priority
        ).sized(1, asynchronous.capacity, asynchronous.tuning_bytes)
    elif smart is not None:
        spec = spec._replace(
            timeout_millis=smart.timeout_millis, closed_codes=smart.closed_codes
        ).sized(1, smart.capacity, smart.tuning_bytes)
    return spec._replace(upstream=upstream)


def _copy(view: GraphView, source: str, suffix: str, before: str, writer: NodeWriter) -> str:
    original = view.nodes[source]
    inputs = [tensor.input_name for tensor in view.inputs(source)]
    inputs += ["^" + each for each in (*view.controls(source), *filter(None, [before]))]
    suffix = "{}/{}".format(suffix, source)
    return str(writer.node(suffix, original.op, inputs, original.device, **original.attr).name)


def _outputs(view: GraphView, source: str, name: str) -> Dict[TensorRef, str]:
    count = len(view.dtypes(source) or ())
    return {TensorRef(source, index): TensorRef(name, index).input_name for index in range(count)}


def _refuse_chosen(view: GraphView, source: str) -> None:
    """Refuses what cannot be read ahead: an input that each step chooses, and handles in it."""
    need = "one iterator, queue or IO stage that every step reads, and values in its batches"
    before = view.ancestors([source])
    if source in fed_iterators(view) or any(view.op(name) in CONTROL_FLOW for name in before):
        raise Refusal("no_source_to_pull", at=source, need=need, saw="one that each step chooses")
    if not all(is_value(dtype) for dtype in view.dtypes(source) or ()):
        raise Refusal("no_source_to_pull", at=source, need=need, saw="a handle in its batches")
