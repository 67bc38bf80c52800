"""Turns a prefetch region and its boundary into new nodes and edges.

    original:  source -> lookup -> dense            (names kept; source and lookup no longer run)
    prefetch:  N/source -> N/lookup -> N/TensorBufferPut
    main:      N/TensorBufferTake -> dense

The prefetch nodes are clones, so that every tensor of the user's graph keeps its name.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_value
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import ControlEdit, InputEdit, Rewrite
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.ops import stage_nodes
from graph_opt.ops.stage_spec import KIND_IO, StageSpec, is_stand_in, spec_of
from graph_opt.passes.io_stages import BUFFER_TAKE, is_buffer, stage_puts
from graph_opt.passes.node_writer import NodeWriter, Record
from graph_opt.passes.prefetch.boundary import Boundary
from graph_opt.passes.prefetch.fetch_guard import guard_source
from graph_opt.passes.prefetch.region import PrefetchRegion
from graph_opt.passes.protect_gathers import ensure_shape
from graph_opt.passes.unused_gradients import UnusedGradients


class StageRewrite:
    """Builds the rewrite of one region.

    Args:
      view: The graph.
      region: What moves.
      boundary: What crosses.
      unused: Gradients that may lose their control edges.
      spec: How to run the stage.
      protected: Inputs that are read through an EnsureShape; see `protect_gathers`.

    Attributes:
      spec: The stage; after `build`, with the stage that it takes from.
      takes: For each boundary tensor, the output of the take that carries it; set by `build`.

    Raises:
      Refusal: The dtype of a boundary tensor is unknown or cannot be transferred.
    """

    def __init__(
        self,
        view: GraphView,
        region: PrefetchRegion,
        boundary: Boundary,
        unused: UnusedGradients,
        spec: StageSpec,
        protected: AbstractSet[Tuple[str, int]],
    ) -> None:
        self._view = view
        self._region = region
        self._boundary = boundary
        self._unused = unused
        self.spec = spec
        self._protected = protected
        self._cloned = self._needed_clones()
        self._source_tensors: Dict[TensorRef, str] = {}
        self._writer = NodeWriter(spec.name, _cpu_of(view.device(region.source)))
        self.takes: Dict[TensorRef, str] = {}
        self._io_stage = ""

    def build(self) -> Rewrite:
        """All nodes and edits of the stage."""
        dtypes = [self._dtype(tensor) for tensor in self._boundary.tensors]
        source = self._add_source()
        for name in self._cloned:
            self._clone(name)
        shapes = self._add_zero_shapes()
        tensors = list(self._boundary.tensors)
        inputs = [self._cloned_input(tensor) for tensor in tensors] + list(shapes.values())
        dtypes += [tf.int32.as_datatype_enum] * len(shapes)
        take = self._add_buffer(tensors, inputs, dtypes, source)
        self.takes = {t: TensorRef(take, i).input_name for i, t in enumerate(tensors)}
        zeros = self._add_zeros(shapes, take, len(tensors))
        guard, cut_handles = guard_source(self._writer, self._view, self._region.source)
        inputs_moved = self._input_edits(zeros) + cut_handles
        controls_moved = self._control_edits(take, guard)
        return Rewrite(tuple(self._writer.nodes), tuple(inputs_moved), tuple(controls_moved))

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

    def _dtype(self, tensor: TensorRef) -> int:
        number = self._view.dtype(tensor)
        if number is None:
            raise Refusal(
                "unknown_op", at=tensor.node, need="an op that this process has registered",
                saw=self._view.op(tensor.node),
            )  # fmt: skip
        if not is_value(number):
            raise Refusal(
                "state_in_boundary", at=tensor.node, need="a value", saw=tf.as_dtype(number).name
            )
        return number

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
        self._io_stage = _stage_that_fills(self._view, source)
        return clone

    def _add_inferred_stage(self) -> Any:
        """Adds an IO stage after an iterator, a queue or a stand-in: clone, put, take."""
        source = self._region.source
        self._io_stage = self.spec.name + "_io"
        clone = self._clone(source)
        used = self._used_outputs(source)
        dtypes = [self._dtype(tensor) for tensor in used]
        inputs = [TensorRef(clone.name, tensor.index).input_name for tensor in used]
        shapes = [self._view.shape(tensor) for tensor in used]
        take = self._writer.put_and_take(self._io_spec(), Record(inputs, dtypes, shapes))
        for index, tensor in enumerate(used):
            self._source_tensors[tensor] = TensorRef(take.name, index).input_name
        return take

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
        )

    def _used_outputs(self, source: str) -> List[TensorRef]:
        used = {tensor for tensor, _ in self._view.node_uses(source)}
        used.update(tensor for tensor in self._boundary.tensors if tensor.node == source)
        return sorted(used) or [TensorRef(source, 0)]

    def _clone(self, name: str) -> Any:
        original = self._view.nodes[name]
        clone = self._writer.node(name, original.op, (), original.device, **dict(original.attr))
        for slot, tensor in enumerate(self._view.inputs(name)):
            text = self._cloned_input(tensor)
            if (name, slot) in self._protected:
                ensure = ensure_shape(self._view, tensor, text, self._writer.name(tensor.node))
                self._writer.nodes.append(ensure)
                text = ensure.name
            clone.input.append(text)
        for source in self._view.controls(name):
            clone.input.append("^" + self._cloned_node(source))
        self._move_colocation(clone)
        return clone

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
            return TensorRef(self._writer.name(tensor.node), tensor.index).input_name
        return tensor.input_name

    def _cloned_node(self, name: str) -> str:
        if name in self._cloned or (name == self._region.source and self._source_is_clone()):
            return self._writer.name(name)
        if name == self._region.source:
            return self._io_stage + "/" + BUFFER_TAKE
        return name

    def _source_is_clone(self) -> bool:
        return is_buffer(self._view, self._region.source)

    def _add_zero_shapes(self) -> Dict[TensorRef, str]:
        """A Shape node in prefetch for each tensor that main uses only to make zeros or ones."""
        shapes: Dict[TensorRef, str] = {}
        for tensor in self._boundary.zeros.values():
            if tensor in shapes:
                continue
            suffix = "{}/shape_of_{}".format(tensor.node, tensor.index)
            node = self._writer.node(
                suffix,
                "Shape",
                [self._cloned_input(tensor)],
                self._view.device(tensor.node),
                T=tf.AttrValue(type=self._dtype(tensor)),
                out_type=tf.AttrValue(type=tf.int32.as_datatype_enum),
            )
            shapes[tensor] = node.name
        return shapes

    def _add_buffer(
        self, tensors: Sequence[TensorRef], inputs: List[str], dtypes: List[int], source: Any
    ) -> str:
        unknown: List[Shape] = [None] * (len(dtypes) - len(tensors))
        shapes = [self._view.shape(tensor) for tensor in tensors] + unknown
        if self._io_stage:
            self.spec = self.spec._replace(upstream=(self._io_stage,))
        take = self._writer.put_and_take(self.spec, Record(inputs, dtypes, shapes))
        if self.spec.ordered:
            self._take_turns(source)
        return str(take.name)

    def _take_turns(self, source: Any) -> None:
        """Lets one thread at a time take a batch, which fixes the order in which batches leave.

        What reads the batch waits for the end of the turn; otherwise a thread that runs all kernels
        of its step might run them before ending it.
        """
        begin, end = (self._writer.name(op) for op in (stage_nodes.TURN, stage_nodes.TURN_END))
        for node in self._writer.nodes:
            reads = any(TensorRef.parse(text).node == source.name for text in node.input)
            if reads and "^" + end not in node.input:
                node.input.append("^" + end)
        source.input.append("^" + begin)
        self._writer.named(end).input.append("^" + source.name)

    def _add_zeros(self, shapes: Dict[TensorRef, str], take: str, first: int) -> Dict[str, str]:
        """Fill nodes in main that replace ZerosLike and OnesLike, by the node they replace."""
        positions = {tensor: first + i for i, tensor in enumerate(shapes)}
        made: Dict[str, str] = {}
        for name, tensor in self._boundary.zeros.items():
            device = self._view.device(name)
            dtype = self._dtype(tensor)
            number = 0 if self._view.op(name) == "ZerosLike" else 1
            number_type = tf.as_dtype(dtype).as_numpy_dtype
            value = self._writer.constant(name + "/value", number_type(number), device)
            fill = self._writer.node(
                name + "/fill",
                "Fill",
                [TensorRef(take, positions[tensor]).input_name, value],
                device,
                T=tf.AttrValue(type=dtype),
                index_type=tf.AttrValue(type=tf.int32.as_datatype_enum),
            )
            made[name] = fill.name
        return made

    def _input_edits(self, zeros: Dict[str, str]) -> List[InputEdit]:
        edits: List[InputEdit] = []
        for tensor, take in self.takes.items():
            for use in self._view.uses(tensor):
                if not self._in_prefetch_alone(use.consumer):
                    edits.append(InputEdit(use.consumer, use.slot, take))
        for name, fill in zeros.items():
            edits.append(InputEdit(name, 0, fill))
            for use in self._view.uses(TensorRef(name, 0)):
                edits.append(InputEdit(use.consumer, use.slot, fill))
        return edits

    def _in_prefetch_alone(self, name: str) -> bool:
        return name in self._boundary.hidden

    def _control_edits(self, take: str, guard: str) -> List[ControlEdit]:
        edits = [ControlEdit(self._region.source, (), (guard,))]
        waiting: Dict[str, List[str]] = {}
        for name in self._boundary.hidden:
            for user in self._view.control_uses(name):
                if not self._in_prefetch_alone(user):
                    waiting.setdefault(user, []).append(name)
        for user, sources in waiting.items():
            edits.append(ControlEdit(user, tuple(sources), (take,)))
        for source, group in self._unused.released:
            if source in self._boundary.broken:
                edits.append(ControlEdit(group, (source,), ()))
        return edits


def _cpu_of(device: str) -> str:
    """The CPU of the same task: buffers live in host memory."""
    if not device:
        return ""
    spec = tf.DeviceSpec.from_string(device)
    return tf.DeviceSpec(
        job=spec.job, replica=spec.replica, task=spec.task, device_type="CPU", device_index=0
    ).to_string()


def _stage_that_fills(view: GraphView, take: str) -> str:
    buffer = view.nodes[take].attr["shared_name"].s
    for put in stage_puts(view):
        node = view.nodes[put]
        if node.attr["shared_name"].s == buffer:
            return spec_of(node).name
    return ""
