"""The prefetch half of a stage: a copy of the region that ends in a buffer.

N/source -> N/lookup -> N/TensorBufferPut    N/TensorBufferTake
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_value
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.ops import stage_nodes, stage_threads
from graph_opt.ops.stage_spec import CAPACITY, KIND_IO, StageSpec, is_stand_in, spec_of
from graph_opt.passes.io_stages import BUFFER_TAKE, is_buffer, stage_puts
from graph_opt.passes.node_writer import NodeWriter, Record
from graph_opt.passes.prefetch.boundary import Boundary
from graph_opt.passes.prefetch.choices import Choice
from graph_opt.passes.prefetch.exchange_turns import take_exchange_turns
from graph_opt.passes.prefetch.region import PrefetchRegion
from graph_opt.passes.protect_gathers import ensure_shape
from graph_opt.passes.tasks import on_cpu, runs_on_cpu, task_of


class Alternative(NamedTuple):
    """Which of the inputs that a step may choose the stage reads; see `Choice`."""

    choice: Choice
    number: int


class RegionClone:
    """Writes the nodes of one stage that its threads run, and the take that main runs.

    Args:
      view: The graph.
      region: What moves.
      boundary: What crosses.
      spec: How to run the stage.
      protected: Inputs that are read through an EnsureShape; see `protect_gathers`.
      alternative: The input that is read, where a step chooses one of several.

    Attributes:
      writer: Has the nodes.
      spec: The stage; after `write`, with the stage that it takes from.
      take: The take; set by `write`.
    """

    def __init__(
        self,
        view: GraphView,
        region: PrefetchRegion,
        boundary: Boundary,
        spec: StageSpec,
        protected: AbstractSet[Tuple[str, int]],
        alternative: Optional[Alternative] = None,
    ) -> None:
        self._view = view
        self._region = region
        self._boundary = boundary
        self._protected = protected
        self._alternative = alternative
        self._cloned = self._needed_clones()
        self._source_tensors: Dict[TensorRef, str] = {}
        self._io_stage = ""
        self.writer = NodeWriter(view, spec.name, cpu_of(view.device(region.source)))
        self.spec = spec
        self.take: Any = None

    def write(self) -> None:
        """Writes all nodes.

        Raises:
          Refusal: The dtype of a boundary tensor is unknown or cannot be transferred.
        """
        tensors = list(self._boundary.tensors)
        dtypes = [value_dtype_of(self._view, tensor) for tensor in tensors]
        source = self._add_source()
        for name in self._cloned:
            self._clone(name)
        shapes = [self._add_shape(tensor) for tensor in shape_tensors(self._boundary)]
        inputs = [self._cloned_input(tensor) for tensor in tensors] + shapes
        dtypes += [tf.int32.as_datatype_enum] * len(shapes)
        self.take = self._add_buffer(inputs, dtypes, source)
        if self._region.exchanges:
            take_exchange_turns(self._view, self._region.exchanges, self.writer, self.spec)

    def _needed_clones(self) -> Dict[str, None]:
        """The nodes, in topological order, from which the boundary tensors are computed.

        What main computes again, at the end of a lookup, need not run in prefetch as well.
        """
        order = self._region.nodes + self._boundary.absorbed
        inside = set(order)
        crossing = list(self._boundary.tensors) + list(self._boundary.zeros.values())
        pending = [tensor.node for tensor in crossing]
        needed: Set[str] = set()
        while pending:
            name = pending.pop()
            if name in inside and name not in needed:
                needed.add(name)
                pending.extend(self._view.predecessors(name))
        return dict.fromkeys(name for name in order if name in needed)

    def _add_source(self) -> Any:
        """Clones the batch source; returns the node that returns the batches."""
        if is_buffer(self._view, self._region.source):
            return self._add_buffer_source()
        return self._add_inferred_stage()

    def _add_buffer_source(self) -> Any:
        source = self._region.source
        clone = self._clone(source)
        count = len(self._view.nodes[source].attr["dtypes"].list.type)
        for index in range(count):
            tensor = TensorRef(source, index)
            self._source_tensors[tensor] = TensorRef(clone.name, index).input_name
        self._io_stage = stage_that_fills(self._view, source)
        return clone

    def _add_inferred_stage(self) -> Any:
        """Adds an IO stage after an iterator, a queue or a stand-in: clone, put, take."""
        source = self._region.source
        self._io_stage = self.spec.name + "_io"
        outputs: Sequence[str] = self._batch_of_alternative() or self._batch_of(source)
        used = self._used_outputs(source)
        dtypes = [value_dtype_of(self._view, tensor) for tensor in used]
        inputs = [outputs[tensor.index] for tensor in used]
        shapes = [self._view.shape(tensor) for tensor in used]
        take = self.writer.put_and_take(self._io_spec(), Record(inputs, dtypes, shapes))
        for index, tensor in enumerate(used):
            self._source_tensors[tensor] = TensorRef(take.name, index).input_name
        return take

    def _batch_of(self, source: str) -> List[str]:
        clone = self._clone(source)
        count = len(self._view.dtypes(source) or [])
        return [TensorRef(clone.name, index).input_name for index in range(count)]

    def _batch_of_alternative(self) -> Sequence[str]:
        if self._alternative is None:
            return []
        return self._alternative.choice.write_batch(self._alternative.number, self.writer)

    def _io_spec(self) -> StageSpec:
        """How to run the IO stage; as before, if the graph was exported with one in this place."""
        source = self._view.nodes[self._region.source]
        if is_stand_in(source):
            return spec_of(source)._replace(name=self._io_stage)
        spec = self.spec
        return StageSpec(
            self._io_stage,
            KIND_IO,
            capacity=spec.capacity,
            timeout_millis=spec.timeout_millis,
            priority=spec.priority,
            closed_codes=spec.closed_codes,
            ignored_codes=spec.ignored_codes,
            tuned=tuple(name for name in spec.tuned if name == CAPACITY),
            tuning_bytes=spec.tuning_bytes,
        )

    def _used_outputs(self, source: str) -> List[TensorRef]:
        used = {tensor for tensor, _ in self._view.node_uses(source)}
        used.update(tensor for tensor in self._boundary.tensors if tensor.node == source)
        return sorted(used) or [TensorRef(source, 0)]

    def _clone(self, name: str) -> Any:
        original = self._view.nodes[name]
        clone = self.writer.node(name, original.op, (), original.device, **dict(original.attr))
        for slot, tensor in enumerate(self._view.inputs(name)):
            text = self._cloned_input(tensor)
            if (name, slot) in self._protected:
                ensure = ensure_shape(self._view, tensor, text, self.writer.name(tensor.node))
                self.writer.nodes.append(ensure)
                text = ensure.name
            clone.input.append(text)
        for source in self._view.controls(name):
            clone.input.append("^" + self._cloned_node(source))
        self._move_colocation(clone)
        if clone.op in stage_threads.OPS and self._is_beside_buffer(clone.device):
            in_cluster = task_of(clone.device) is not None
            for key, value in stage_threads.stage_threads(self.spec, in_cluster).items():
                clone.attr[key].CopyFrom(value)
        return clone

    def _is_beside_buffer(self, device: str) -> bool:
        return runs_on_cpu(device) and on_cpu(device) == on_cpu(self.writer.device)

    def _move_colocation(self, clone: Any) -> None:
        if "_class" not in clone.attr:
            return
        groups = [group.decode("utf-8") for group in clone.attr["_class"].list.s]
        moved = []
        for group in groups:
            head, at, other = group.partition("@")
            moved.append(head + at + (self._cloned_node(other) if at else other))
        clone.attr["_class"].list.s[:] = [group.encode("utf-8") for group in moved]

    def _cloned_input(self, tensor: TensorRef) -> str:
        if tensor in self._source_tensors:
            return self._source_tensors[tensor]
        if tensor.node in self._cloned:
            return TensorRef(self.writer.name(tensor.node), tensor.index).input_name
        return tensor.input_name

    def _cloned_node(self, name: str) -> str:
        if name in self._cloned or (name == self._region.source and self._source_is_clone()):
            return self.writer.name(name)
        if name == self._region.source:
            return self._io_stage + "/" + BUFFER_TAKE
        return name

    def _source_is_clone(self) -> bool:
        return is_buffer(self._view, self._region.source)

    def _add_shape(self, tensor: TensorRef) -> str:
        """A Shape node in prefetch for a tensor that main uses only to make zeros or ones."""
        return self.writer.call(
            "{}/shape_of_{}".format(tensor.node, tensor.index),
            "Shape",
            self._view.device(tensor.node),
            input=Tensor(self._cloned_input(tensor), value_dtype_of(self._view, tensor)),
        ).result

    def _add_buffer(self, inputs: List[str], dtypes: List[int], source: Any) -> Any:
        tensors = self._boundary.tensors
        unknown: List[Shape] = [None] * (len(dtypes) - len(tensors))
        shapes = [self._view.shape(tensor) for tensor in tensors] + unknown
        if self._io_stage:
            self.spec = self.spec._replace(upstream=(self._io_stage,))
        take = self.writer.put_and_take(self.spec, Record(inputs, dtypes, shapes))
        if self.spec.ordered:
            self._take_turns(source)
        return take

    def _take_turns(self, source: Any) -> None:
        """Lets one thread at a time take a batch, which fixes the order in which batches leave.

        What reads the batch waits for the end of the turn; otherwise a thread that runs all kernels
        of its step might run them before ending it.
        """
        begin, end = (self.writer.name(op) for op in (stage_nodes.TURN, stage_nodes.TURN_END))
        for node in self.writer.nodes:
            reads = any(TensorRef.parse(text).node == source.name for text in node.input)
            if node.name == end:
                node.input.append("^" + source.name)
            elif reads and "^" + end not in node.input:
                node.input.append("^" + end)
        source.input.append("^" + begin)


def shape_tensors(boundary: Boundary) -> Sequence[TensorRef]:
    """The tensors whose shapes cross, after the boundary tensors, to make zeros or ones in main."""
    return tuple(dict.fromkeys(boundary.zeros.values()))


def value_dtype_of(view: GraphView, tensor: TensorRef) -> int:
    """The dtype of a tensor that crosses.

    Raises:
      Refusal: It is unknown or cannot be transferred.
    """
    number = view.dtype(tensor)
    if number is None:
        raise Refusal(
            "unknown_op", at=tensor.node, need="an op that this process has registered",
            saw=view.op(tensor.node),
        )  # fmt: skip
    if not is_value(number):
        raise Refusal(
            "state_in_boundary", at=tensor.node, need="a value", saw=tf.as_dtype(number).name
        )
    return number


def cpu_of(device: str) -> str:
    """The CPU of the same task: buffers live in host memory."""
    if not device:
        return ""
    spec = tf.DeviceSpec.from_string(device)
    return tf.DeviceSpec(
        job=spec.job, replica=spec.replica, task=spec.task, device_type="CPU", device_index=0
    ).to_string()


def stage_that_fills(view: GraphView, take: str) -> str:
    """The stage whose buffer a node takes from; "" if no stage of graph_opt fills it."""
    buffer = view.nodes[take].attr["shared_name"].s
    for put in stage_puts(view):
        node = view.nodes[put]
        if node.attr["shared_name"].s == buffer:
            return spec_of(node).name
    return ""
