"""Moves updates on servers, and reads of weights, from the step of main to a stage of their own.

    server                            worker
    reads ──────────────────────────> N/first/TensorBufferPut                   once, twice
    clones of reads ────────────────> N/TensorBufferPut                         the stage's step
      ^ wait for
    clones of updates <────────────── N/gradients/TensorBufferTake
                                      N/TensorBufferTake -> layers, gradients   main
                                      -> N/gradients/TensorBufferPut <- train op waits

The stage applies the gradients of a step and reads the weights for the step after the next one, in
one step of its own. Two records of weights are under way, both read at first before any update. So
the weights of each step miss one update, that of the step before, however long anything takes.

The user's reads and updates keep their names and run in steps that do not train.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_value, value_dtype
from graph_opt.config.options import SessionOptions
from graph_opt.graph.rewrite import ControlEdit, InputEdit, Rewrite
from graph_opt.graph.view import GraphView, TensorRef, shape_proto
from graph_opt.ops import stage_nodes
from graph_opt.ops.stage_spec import (
    KIND_PIPELINE,
    StageSpec,
    gradients_of,
    put_attributes,
    take_attributes,
    unstaged_put_attributes,
)
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.pipeline.pushed_updates import PushedUpdates, pushed_updates
from graph_opt.reporting.tables import counted
from graph_opt.rules.op_names import VARIABLES

_SCOPE = "pipeline_dense"
# Weights of the step that runs and of the next one; of no more, or steps would miss more updates.
_RECORDS = 2
_CLASS = "_class"
_COLOCATED = b"loc:@"
_NOTHING = "pipeline_dense: nothing to pipeline: {}"
_NO_SERVER = "no training step reads and updates variables on another task"
_ALL_STAY = "all updates stay in the step ({})"


def pipeline_dense(state: PassState, options: SessionOptions) -> PassState:
    """Makes a stage that pulls weights and pushes gradients."""
    if not options.pipeline_dense:
        return state
    found = pushed_updates(state.view, state.translation.not_run)
    refused = tuple(each.to_dict() for each in found.refusals)
    pushed = found.pushed
    if pushed is None or not pushed.pulled or not pushed.sent:
        codes = ", ".join(sorted({each.code for each in found.refusals}))
        reason = _NOTHING.format(_ALL_STAY.format(codes) if codes else _NO_SERVER)
        left = (*state.report.left_alone, reason)
        return state.reporting(left_alone=left, not_pipelined=refused)
    writer = _Stage(state.view, pushed)
    return state.rewritten(writer.rewrite()).reporting(_line(pushed), not_pipelined=refused)


class _Stage:
    """The nodes of the stage, and how main's nodes change."""

    def __init__(self, view: GraphView, pushed: PushedUpdates) -> None:
        self._view = view
        self._pushed = pushed
        scope = free_scope(view, _SCOPE)
        self._weights = StageSpec(scope, KIND_PIPELINE, capacity=_RECORDS, closed_codes=())
        self._gradients = gradients_of(self._weights)
        self._writer = NodeWriter(scope, pushed.worker)
        self._cloned = frozenset(pushed.pushed)
        self._pulls: Dict[str, str] = {}
        self._taken = {
            tensor: TensorRef(self._gradients.name + "/TensorBufferTake", index).input_name
            for index, tensor in enumerate(pushed.sent)
        }

    def rewrite(self) -> Rewrite:
        """All nodes and edits."""
        writer = self._writer
        sent = self._signature(self._pushed.sent)
        put = self._put(
            "gradients/TensorBufferPut",
            unstaged_put_attributes(self._gradients),
            [tensor.input_name for tensor in self._pushed.sent],
            sent,
        )
        put.input.extend("^" + name for name in self._pushed.waits)
        self._take(self._gradients, sent)
        for name in self._pushed.pushed:
            self._clone(name)
        for tensor in sorted(self._pushed.copies):
            self._copy(tensor)
        for spec in (self._weights, self._gradients):
            writer.nodes.extend(stage_nodes.control_nodes(spec, writer.device))
        pulled = self._signature(tuple(self._pushed.pulled))
        first = [self._value(tensor, "first") for tensor in self._pushed.pulled]
        self._put("first/TensorBufferPut", unstaged_put_attributes(self._weights), first, pulled)
        self._copy_reads()
        again = [self._pull(tensor) for tensor in self._pushed.pulled]
        last = self._put("TensorBufferPut", put_attributes(self._weights), again, pulled)
        last.input.extend("^" + self._name(update) for update in self._pushed.updates)
        take = self._take(self._weights, pulled)
        return Rewrite(tuple(writer.nodes), tuple(self._reads_moved(take)), self._waits(put.name))

    def _reads_moved(self, take: str) -> List[InputEdit]:
        return [
            InputEdit(use.consumer, use.slot, TensorRef(take, index).input_name)
            for index, uses in enumerate(self._pushed.pulled.values())
            for use in uses
        ]

    def _waits(self, put: str) -> Tuple[ControlEdit, ...]:
        return tuple(
            ControlEdit(name, sources, (put,)) for name, sources in self._pushed.followers.items()
        )

    def _name(self, name: str) -> str:
        return self._writer.name(name)

    def _signature(self, tensors: Sequence[TensorRef]) -> Dict[str, Any]:
        """Dtypes and shapes of a record."""
        view = self._view
        dtypes = [value_dtype(view.dtype(tensor) or 0) for tensor in tensors]
        shapes = [shape_proto(view.shape(tensor)) for tensor in tensors]
        return {
            "dtypes": tf.AttrValue(list=tf.AttrValue.ListValue(type=dtypes)),
            "shapes": tf.AttrValue(list=tf.AttrValue.ListValue(shape=shapes)),
        }

    def _put(
        self, suffix: str, attributes: Any, inputs: Sequence[str], signature: Dict[str, Any]
    ) -> Any:
        return self._writer.node(
            suffix, stage_nodes.BUFFER_PUT, inputs, dtypes=signature["dtypes"], **attributes
        )

    def _take(self, spec: StageSpec, signature: Dict[str, Any]) -> str:
        suffix = spec.name[len(self._writer.scope) :].lstrip("/")
        node = self._writer.node(
            "/".join(filter(None, [suffix, stage_nodes.BUFFER_TAKE])),
            stage_nodes.BUFFER_TAKE,
            _output_shapes=signature["shapes"],
            **signature,
            **take_attributes(spec),
        )
        return str(node.name)

    def _clone(self, name: str) -> None:
        """A node of the stage that does what a node of main did for updates."""
        view, pushed = self._view, self._pushed
        inputs = [self._input(tensor, name) for tensor in view.inputs(name)]
        waits = dict.fromkeys(self._names_before(name))
        for control in view.controls(name):
            if control in self._cloned:
                waits[self._name(control)] = None
            for update in pushed.earlier.get(control, ()):
                waits[self._name(update)] = None
        node = self._copied(name, self._name(name), inputs, waits)
        self._writer.nodes.append(node)

    def _names_before(self, update: str) -> List[str]:
        before = self._pushed.before.get(update, ())
        copies = [each for each in sorted(self._pushed.copies) if each.node in before]
        return [self._name(name) for name in before] + [self._copy_name(each) for each in copies]

    def _copy_name(self, tensor: TensorRef) -> str:
        return self._name("copy/" + tensor.node)

    def _copy(self, tensor: TensorRef) -> None:
        """Its value when it is read, which updates of the variable do not change."""
        self._writer.node(
            "copy/" + tensor.node,
            "DeepCopy",
            [TensorRef(self._name(tensor.node), tensor.index).input_name],
            self._view.device(tensor.node),
            T=tf.AttrValue(type=self._view.dtype(tensor)),
        )

    def _input(self, tensor: TensorRef, reader: str) -> str:
        tasks = self._pushed.tasks
        if tensor in self._taken and not (
            tensor.node in self._cloned and tasks[reader] == self._pushed.worker
        ):
            return self._taken[tensor]
        if tensor in self._pushed.copies and tasks[reader] != tasks[tensor.node]:
            return self._copy_name(tensor)
        if tensor.node in self._cloned:
            return TensorRef(self._name(tensor.node), tensor.index).input_name
        return tensor.input_name

    def _copied(self, name: str, new_name: str, inputs: Sequence[str], waits: Iterable[str]) -> Any:
        node = tf.NodeDef()
        node.CopyFrom(self._view.nodes[name])
        node.name = new_name
        del node.input[:]
        node.input.extend([*inputs, *("^" + each for each in waits)])
        if _CLASS in node.attr:
            groups = node.attr[_CLASS].list.s
            kept = [each for each in groups if self._is_variable(each)]
            groups[:] = kept
        return node

    def _is_variable(self, group: bytes) -> bool:
        """Whether a colocation is with a variable, which is no node of the stage."""
        name = group[len(_COLOCATED) :].decode("utf-8")
        return name in self._view and self._view.op(name) in VARIABLES

    def _pull(self, tensor: TensorRef) -> str:
        """What the stage reads once the updates on the same server are applied."""
        if tensor.node in self._pulls:
            return TensorRef(self._pulls[tensor.node], tensor.index).input_name
        return self._value(tensor, "pull", self._updates_beside(tensor.node))

    def _copy_reads(self) -> None:
        view = self._view
        for name in self._pushed.reads:
            inputs = [
                TensorRef(self._pulls.get(tensor.node, tensor.node), tensor.index).input_name
                for tensor in view.inputs(name)
            ]
            reads = any(view.op(tensor.node) in VARIABLES for tensor in view.inputs(name))
            waits = self._updates_beside(name) if reads else []
            new_name = self._name("pull/" + name)
            self._writer.nodes.append(self._copied(name, new_name, inputs, waits))
            self._pulls[name] = new_name

    def _updates_beside(self, name: str) -> List[str]:
        """The updates on the same server."""
        tasks = self._pushed.tasks
        return [
            self._name(update) for update in self._pushed.updates if tasks[update] == tasks[name]
        ]

    def _value(self, tensor: TensorRef, scope: str, waits: Sequence[str] = ()) -> str:
        """A tensor, or the value of a reference, read on its server."""
        number = self._view.dtype(tensor) or 0
        if is_value(number):
            return tensor.input_name
        node = self._writer.node(
            "{}/{}/value".format(scope, tensor.node),
            "Identity",
            [tensor.input_name, *("^" + each for each in waits)],
            self._view.device(tensor.node),
            T=tf.AttrValue(type=value_dtype(number)),
        )
        return str(node.name)


def _line(pushed: PushedUpdates) -> str:
    servers = {pushed.tasks[name] for name in pushed.updates}
    return (
        "pipeline_dense: {} on {} run while the next step computes, which reads {} pulled before; "
        "weights miss 1 update".format(
            counted(len(pushed.updates), "update"),
            counted(len(servers), "server"),
            counted(len(pushed.pulled), "tensor"),
        )
    )
