"""Moves updates on servers, and reads of weights, from the step of main to a stage of their own.

    server                            worker
    reads ──────────────────────────> N/first/TensorBufferPut                   once
                                      N/second/TensorBufferPut
    clones of reads ────────────────> N/TensorBufferPut                         the stage's step
      ^ wait for
    clones of updates <────────────── N/gradients/TensorBufferTake
                                      N/TensorBufferTake -> layers, gradients   main
                                      -> N/gradients/TensorBufferPut <- train op waits

The stage applies the gradients of a step and reads the weights for the step after the next one, in
one step of its own. Two records of weights are under way, both read at first before any update. So
the weights of each step miss one update, that of the step before, however long anything takes: a
run can be compared with stock TensorFlow's to the bit. With `dense_staleness: 0` only one record is
under way: a step waits for what its own update returned.

Two threads run the stage: while one waits for servers, the next step is under way to them, and has
its turn (a buffer of one token) once the last one's weights are put. So a step costs the stage one
round trip and not two. It is a stage like the others, except that steps of main fill the buffer
that it takes from. An error of an update takes the place of weights, and is raised by a step that
takes these, by what waits for the stage, or when the session is closed.

The user's reads and updates keep their names and run in steps that do not train.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Call, Tensor
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.ops import stage_nodes
from graph_opt.ops.stage_spec import (
    KIND_PIPELINE,
    StageSpec,
    gradients_of,
    put_attributes,
    take_attributes,
    turns_of,
    unstaged_put_attributes,
)
from graph_opt.passes.node_writer import NodeWriter, free_scope, tensor_of
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.pipeline.copied_node import copied_node
from graph_opt.passes.pipeline.pipelined_names import PipelinedNames
from graph_opt.passes.pipeline.pushed_updates import PushedUpdates, pushed_updates
from graph_opt.passes.pipeline.weight_reads import WeightReads
from graph_opt.passes.tasks import job_of, on_cpu
from graph_opt.reporting.tables import counted
from graph_opt.rules.op_names import VARIABLES

_SCOPE = "pipeline_dense"
# While one waits for its server, the next is under way to it, and has its turn afterwards.
_THREADS = 2
_LINE = (
    "pipeline_dense: {} on {} run while the next step computes, which reads {} pulled before; "
    "weights miss 1 update"
)
_LINE_OF_NONE_MISSED = (
    "pipeline_dense: {} on {} return {} to the next step, which asks for none; weights miss no "
    "update of this worker"
)
_NOTHING = "pipeline_dense: nothing to pipeline: {}"
_NO_SERVER = "no training step reads and updates variables on another task"
_NO_TASK = (
    "'{}' is on '{}', which names a job and no task, so that it is not known where updates come "
    "from: say worker_device='/job:worker/task:0' to tf.train.replica_device_setter"
)
_ALL_STAY = "all updates stay in the step ({})"


def pipeline_dense(state: PassState, options: SessionOptions) -> PassState:
    """Makes a stage that pulls weights and pushes gradients."""
    if options.pipeline_dense is None:
        return state
    found = pushed_updates(state.view, state.name_map.not_run)
    refused = tuple(each.to_dict() for each in found.refusals)
    pushed = found.pushed
    if pushed is None or not pushed.pulled or not pushed.sent:
        codes = ", ".join(sorted({each.code for each in found.refusals}))
        reason = _NOTHING.format(_ALL_STAY.format(codes) if codes else _no_server(state.view))
        left = (*state.report.left_alone, reason)
        return state.reporting(left_alone=left, not_pipelined=refused)
    missed = options.pipeline_dense.staleness
    stage = _Stage(state.view, pushed, missed)
    line = _line(pushed, missed)
    state = state.rewritten(stage.rewrite()).reporting(line, not_pipelined=refused)
    return dataclasses.replace(state, name_map=state.name_map.with_part(stage.names))


def _no_server(view: GraphView) -> str:
    for name in view.nodes:
        device = view.device(name)
        if job_of(device) is not None and on_cpu(device) is None:
            return _NO_TASK.format(name, device)
    return _NO_SERVER


class _Stage:
    """The nodes of the stage, and how main's nodes change."""

    def __init__(self, view: GraphView, pushed: PushedUpdates, missed: int) -> None:
        self._view = view
        self._pushed = pushed
        self._missed = missed
        scope = free_scope(view, _SCOPE)
        # Weights of the step that runs and of those that begin before its gradients are applied; of
        # no more, or steps would miss more updates.
        self._weights = StageSpec(
            scope, KIND_PIPELINE, capacity=1 + missed, threads_num=_THREADS, closed_codes=()
        )
        self._gradients = gradients_of(self._weights)
        self._turns = turns_of(self._weights)
        self._writer = NodeWriter(view, scope, pushed.worker)
        self._cloned = frozenset(pushed.pushed)
        self._reads = WeightReads(view, pushed, self._writer)
        self._push = ""
        self._turns_at: Dict[str, str] = {}
        self._counters: Dict[str, str] = {}
        self._counts: Dict[TensorRef, str] = {}
        self._taken: Dict[TensorRef, Tensor] = {}

    def rewrite(self) -> Rewrite:
        """All nodes and edits."""
        view, pushed, writer = self._view, self._pushed, self._writer
        sent = [tensor_of(view, tensor) for tensor in pushed.sent]
        attributes = unstaged_put_attributes(self._gradients)
        push = self._put("gradients/TensorBufferPut", attributes, sent, pushed.waits)
        self._push = push.name
        take = self._take(self._gradients, sent, [view.shape(tensor) for tensor in pushed.sent])
        self._taken = dict(zip(pushed.sent, take.outputs("record")))
        turn_end = self._take_turns(take)
        for name in pushed.pushed:
            self._clone(name)
        for tensor in sorted(pushed.copies):
            self._copy(tensor)
        for spec in (self._weights, self._gradients, self._turns):
            writer.nodes.extend(stage_nodes.control_nodes(spec, writer.device))
        record = self._put_weights(turn_end)
        taken = self._take(self._weights, record, self._reads.shapes()).outputs("record")
        self._add_counts(taken)
        return self._edits(taken).rewrite(writer.nodes)

    @property
    def names(self) -> PipelinedNames:
        """What names stand for once the graph is rewritten."""
        pushed = self._pushed
        return PipelinedNames(
            push=self._push,
            updates=frozenset(pushed.updates),
            ends={name: (self._push, *instead) for name, instead in pushed.ends.items()},
            counters=dict(self._counters),
            counts={str(tensor): name for tensor, name in self._counts.items()},
            counting=pushed.counting,
        )

    def _put_weights(self, turn_end: Call) -> List[Tensor]:
        """Puts a record for each step that main begins before the stage has applied gradients.

        Args:
          turn_end: Ends the turn of a step once it has put its record.

        Returns:
          The first record.
        """
        first = self._reads.first()
        attributes = unstaged_put_attributes(self._weights)
        put = self._put("first/TensorBufferPut", attributes, first)
        if self._missed:
            self._put("second/TensorBufferPut", attributes, self._reads.second(first), [put.name])
        again = self._reads.behind_updates(self._missed)
        updates = [self._name(update) for update in self._pushed.updates]
        last = self._put(stage_nodes.BUFFER_PUT, put_attributes(self._weights), again, updates)
        turn_end.node.input.append("^" + last.name)
        return first

    def _take_turns(self, gradients: Call) -> Call:
        """A step takes gradients once the weights of the last step are put; it is asked before.

        Args:
          gradients: Takes them.

        Returns:
          What ends the turn of a step.
        """
        token = [self._writer.constant("turn/token", np.bool_(True))]
        attributes = unstaged_put_attributes(self._turns)
        self._put("turn/first/TensorBufferPut", attributes, token)
        end = self._put("turn/TensorBufferPut", attributes, token)
        turn = self._take(self._turns, token, [()])
        gradients.node.input.append("^" + turn.name)
        return end

    def _add_counts(self, taken: Sequence[Tensor]) -> None:
        """Numbers of steps before and after a step of main, which takes them."""
        pushed = self._pushed
        for counter, number in zip(pushed.counters, taken[len(pushed.pulled) :]):
            self._counters[counter.variable] = str(number.ref)
            instead = pushed.ends.get(counter.update)
            if instead is None:
                continue
            waits = (self._push, *instead)
            after = self._reads.counted_by_main(counter.variable, number, waits)
            for tensor, counted_by in pushed.counts.items():
                if counted_by is counter:
                    self._counts[tensor] = str(after.ref)

    def _edits(self, taken: Sequence[Tensor]) -> Edits:
        edits = Edits(self._view)
        for uses, tensor in zip(self._pushed.pulled.values(), taken):
            edits.move(uses, tensor)
        for name, waits in self._pushed.followers.items():
            for source in waits.sources:
                edits.move_wait(name, source, (*waits.instead, self._push))
        return edits

    def _name(self, name: str) -> str:
        return self._writer.name(name)

    def _put(
        self,
        suffix: str,
        attributes: Dict[str, Any],
        record: List[Tensor],
        waits_for: Sequence[str] = (),
    ) -> Call:
        return self._writer.call(
            suffix,
            stage_nodes.BUFFER_PUT,
            waits_for=waits_for,
            record=record,
            place=[],
            **attributes,
        )

    def _take(self, spec: StageSpec, record: Sequence[Tensor], shapes: Sequence[Shape]) -> Call:
        suffix = spec.name[len(self._writer.scope) :].lstrip("/")
        return self._writer.call(
            "/".join(filter(None, [suffix, stage_nodes.BUFFER_TAKE])),
            stage_nodes.BUFFER_TAKE,
            dtypes=[tensor.dtype for tensor in record],
            shapes=shapes,
            **take_attributes(spec),
        )

    def _clone(self, name: str) -> None:
        """A node of the stage that does what a node of main did for updates."""
        view, pushed = self._view, self._pushed
        inputs = [self._input(tensor, name) for tensor in view.inputs(name)]
        waits = dict.fromkeys(self._names_before(name))
        if any(view.op(tensor.node) in VARIABLES for tensor in view.inputs(name)):
            waits[self._turn_at(str(pushed.tasks[name]))] = None
        for control in view.controls(name):
            if control in self._cloned:
                waits[self._name(control)] = None
            for update in pushed.earlier.get(control, ()):
                waits[self._name(update)] = None
        self._writer.nodes.append(copied_node(view, name, self._name(name), inputs, waits))

    def _turn_at(self, task: str) -> str:
        """A node of a task for which what uses variables waits until its step has the turn."""
        if task not in self._turns_at:
            name, taken = "turn/at{}".format(len(self._turns_at)), self._taken_at(task)
            if taken is None:
                take = "{}/{}".format(self._gradients.name, stage_nodes.BUFFER_TAKE)
                node = self._writer.call(name, "NoOp", task, waits_for=[take])
            else:
                node = self._writer.call(name, "Identity", task, input=taken)
            self._turns_at[task] = node.name
        return self._turns_at[task]

    def _taken_at(self, task: str) -> Optional[Tensor]:
        """A tensor that a task takes anyway."""
        view, tasks = self._view, self._pushed.tasks
        for name in self._pushed.pushed:
            for tensor in view.inputs(name) if tasks[name] == task else ():
                if self._input(tensor, name) == self._taken.get(tensor):
                    return self._taken[tensor]
        return None

    def _names_before(self, update: str) -> List[str]:
        before = self._pushed.before.get(update, ())
        copies = [each for each in sorted(self._pushed.copies) if each.node in before]
        return [self._name(name) for name in before] + [self._copy_name(each) for each in copies]

    def _copy_name(self, tensor: TensorRef) -> str:
        return self._name("copy/" + tensor.node)

    def _copy(self, tensor: TensorRef) -> None:
        """Its value when it is read, which updates of the variable do not change."""
        read = tensor_of(self._view, tensor, self._name(tensor.node))
        device = self._view.device(tensor.node)
        self._writer.call("copy/" + tensor.node, "DeepCopy", device, x=read)

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


def _line(pushed: PushedUpdates, missed: int) -> str:
    servers = {pushed.tasks[name] for name in pushed.updates}
    return (_LINE if missed else _LINE_OF_NONE_MISSED).format(
        counted(len(pushed.updates), "update"),
        counted(len(servers), "server"),
        counted(len(pushed.pulled), "tensor"),
    )
