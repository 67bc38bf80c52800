"""The stages of a graph, read from its put nodes."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, MutableMapping, NoReturn, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.ops.stage_nodes import (
    BUFFER_PUT,
    CANCEL,
    CLOSE,
    CONTROLS,
    METRICS,
    PUT_STATUS,
    RESIZE,
    TURN,
    TURN_BEGUN,
    TURN_END,
    exchange_spec,
)
from graph_opt.ops.stage_spec import (
    CAPACITY,
    EXCHANGE_MARK,
    StageSpec,
    gradients_of,
    has_spec,
    spec_of,
    turns_of,
)

_NEEDED_OPS = (PUT_STATUS, CLOSE, METRICS)
_Buffer = Tuple[str, str]


@dataclass(frozen=True)
class Put:
    """One put operation.

    Attributes:
      name: Its name.
      threads_num: Number of threads that run it.
      ordered: Whether each step feeds its place, so that batches leave in the order of steps.
    """

    name: str
    threads_num: int
    ordered: bool


@dataclass(frozen=True)
class ExchangeTurns:
    """What a runner needs of a stage whose steps exchange messages with other ranks.

    Attributes:
      turn, turn_end: Operations that begin and end the turn of a step.
      begun: Tensor that tells whether the turn of a step has begun.
      cancel, resume: Operations that fail and reopen all turns.
      agreed_code, agreed_message: Tensors that send an error in place of a batch, and return the
        error that all ranks agree on.
      messages: What the messages are called among all those of this process.
    """

    turn: str
    turn_end: str
    begun: str
    cancel: str
    resume: str
    agreed_code: str
    agreed_message: str
    messages: Tuple[str, ...]


@dataclass(frozen=True)
class PipelineTurns:
    """The buffer with which the steps of a stage that applies gradients pass the turn on.

    Attributes:
      begin: Operation that gives the turn to any of them.
      end: Operation by which a step passes it on.
      cancel, resume: Operations that control that buffer.
      status_code, status_message: Tensors fed to `cancel`.
      place: Tensor fed to `resume`.
    """

    begin: str
    end: str
    cancel: str
    resume: str
    status_code: str
    status_message: str
    place: str


@dataclass(frozen=True)
class Pipeline:
    """What a runner needs of a stage that applies the gradients that steps put into a buffer.

    Attributes:
      first: Operation that reads weights without applying gradients, for the first step.
      fill: The operation that does so for all steps that begin before gradients are applied.
      push: Operation by which a step puts its gradients into their buffer.
      cancel, resume: Operations that control that buffer.
      metrics: Tensor of that buffer's metrics.
      status_code, status_message: Tensors fed to `cancel`.
      place: Tensor fed to `resume`.
      turns: How its steps take turns.
    """

    first: str
    fill: str
    push: str
    cancel: str
    resume: str
    metrics: str
    status_code: str
    status_message: str
    place: str
    turns: PipelineTurns


@dataclass(frozen=True)
class Stage:
    """A stage as found in a graph, with the names of the nodes that a runner needs.

    Attributes:
      spec: The spec in its first put, with the `upstream` of all puts.
      puts: What the stage's threads run; `prefetch_join` makes one for each thread.
      cancel, resume, close: Operations that control the buffer.
      put_status: Operation that puts an error in the place of a batch.
      metrics: Tensor of the buffer's metrics.
      status_code, status_message: Tensors fed to `cancel` and `put_status`.
      place: Tensor fed to `put_status`, `resume` and ordered puts, and to turns.
      exchange: Turns in which steps exchange messages with other ranks; None if they do not.
      resize: Operation that gives a tuned buffer its capacity; "" if it is not tuned.
      capacity: Tensor fed to `resize`.
      pipeline: The buffer of gradients that its steps apply; None if they apply none.
    """

    spec: StageSpec
    puts: Tuple[Put, ...]
    cancel: str
    resume: str
    close: str
    put_status: str
    metrics: str
    status_code: str
    status_message: str
    place: str
    exchange: Optional[ExchangeTurns] = None
    resize: str = ""
    capacity: str = ""
    pipeline: Optional[Pipeline] = None

    @property
    def name(self) -> str:
        """Its name, unique in the graph; also the shared name of its buffer."""
        return self.spec.name


@dataclass
class _Found:
    """Operations of a graph that belong to buffers."""

    puts: Dict[str, List[Any]] = field(default_factory=dict)
    unstaged: Dict[_Buffer, List[Any]] = field(default_factory=dict)
    controls: Dict[_Buffer, Dict[str, Any]] = field(default_factory=dict)
    agreements: Dict[str, Any] = field(default_factory=dict)


_cache: MutableMapping[Any, Tuple[int, List[Stage]]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def stages_of(graph: Any) -> List[Stage]:
    """All stages of a graph, upstream first: io stages come before those that take from them.

    They are found by op type and attributes, never by node names: a graph imported under a name
    scope has them too. One pass over the graph, remembered until nodes are added.

    Args:
      graph: A `tf.Graph`.

    Raises:
      tf.errors.InvalidArgumentError: a stage's control nodes are missing, or stages take from
        each other in a cycle.
    """
    with _lock:
        version, stages = _cache.get(graph, (-1, []))
    if version != graph.version:
        version = graph.version
        found = _search(graph)
        stages = _upstream_first([_stage(puts, found) for puts in found.puts.values()])
        with _lock:
            _cache[graph] = (version, stages)
    return list(stages)


def downstream_of(stage: Stage, stages: Iterable[Stage]) -> List[Stage]:
    """The stages that take from this one, directly or through others, nearest first."""
    reached = {stage.name}
    found = []
    for other in _upstream_first(list(stages)):
        if other.name not in reached and reached.intersection(other.spec.upstream):
            reached.add(other.name)
            found.append(other)
    return found


def _search(graph: Any) -> _Found:
    found = _Found()
    for operation in graph.get_operations():
        kind = operation.type
        if kind == "ExchangeStatus" and EXCHANGE_MARK in operation.node_def.attr:
            found.agreements[_text(operation, EXCHANGE_MARK)] = operation
        if not kind.startswith("TensorBuffer"):
            continue
        if kind == BUFFER_PUT and has_spec(operation.node_def):
            name = spec_of(operation.node_def).name
            found.puts.setdefault(name, []).append(operation)
        elif kind == BUFFER_PUT:
            found.unstaged.setdefault(_buffer(operation), []).append(operation)
        elif kind in CONTROLS and not operation.control_inputs:
            controls = found.controls.setdefault(_buffer(operation), {})
            controls[_role(operation)] = operation
    return found


def _role(operation: Any) -> str:
    if operation.type != CANCEL:
        return str(operation.type)
    if not operation.get_attr("is_cancelled"):
        return "resume"
    # A cancel without a status cannot pass an error on, so only the other kind will do.
    return "cancel" if operation.get_attr("num_status") == 1 else "cancel without status"


def _stage(puts: List[Any], found: _Found) -> Stage:
    specs = [spec_of(put.node_def) for put in puts]
    controls = found.controls.get(_buffer(puts[0]), {})
    needed = (*_NEEDED_OPS, "cancel", "resume")
    for role in (*needed, RESIZE) if CAPACITY in specs[0].tuned else needed:
        if role not in controls:
            _refuse("stage '{}' has no {} node for its buffer".format(specs[0].name, role))
    put_status = controls[PUT_STATUS]
    resize = controls.get(RESIZE)
    upstream = {name for spec in specs for name in spec.upstream}
    return Stage(
        spec=specs[0]._replace(upstream=tuple(sorted(upstream))),
        puts=tuple(Put(put.name, spec.threads_num, spec.ordered) for put, spec in zip(puts, specs)),
        cancel=controls["cancel"].name,
        resume=controls["resume"].name,
        close=controls[CLOSE].name,
        put_status=put_status.name,
        metrics=controls[METRICS].outputs[0].name,
        place=put_status.inputs[0].name,
        status_code=put_status.inputs[1].name,
        status_message=put_status.inputs[2].name,
        exchange=_exchange(specs[0], found),
        resize="" if resize is None else resize.name,
        capacity="" if resize is None else resize.inputs[0].name,
        pipeline=_pipeline(puts[0], specs[0], found),
    )


def _pipeline(put: Any, spec: StageSpec, found: _Found) -> Optional[Pipeline]:
    if not spec.is_pipeline:
        return None
    container, name = _buffer(put)
    gradients = container, gradients_of(spec._replace(name=name)).name
    controls = found.controls.get(gradients, {})
    fills, pushes = found.unstaged.get((container, name)), found.unstaged.get(gradients)
    if not fills or not pushes or not {"cancel", "resume"} <= controls.keys():
        _refuse("stage '{}' lacks nodes of its buffer of gradients".format(name))
    # One puts the weights of the first step; another, for the step after it, waits for that.
    waiting = [each for each in fills if any(other in fills for other in each.control_inputs)]
    first = next(each for each in fills if each not in waiting)
    cancel, resume = controls["cancel"], controls["resume"]
    return Pipeline(
        first=first.name,
        fill=(waiting or [first])[0].name,
        push=pushes[0].name,
        cancel=cancel.name,
        resume=resume.name,
        metrics=controls[METRICS].outputs[0].name,
        status_code=cancel.inputs[0].name,
        status_message=cancel.inputs[1].name,
        place=resume.inputs[0].name,
        turns=_pipeline_turns(container, spec._replace(name=name), found),
    )


def _pipeline_turns(container: str, spec: StageSpec, found: _Found) -> PipelineTurns:
    buffer = container, turns_of(spec).name
    controls = found.controls.get(buffer, {})
    puts = sorted(found.unstaged.get(buffer, ()), key=lambda put: len(put.control_inputs))
    if len(puts) != 2 or not {"cancel", "resume"} <= controls.keys():
        _refuse("stage '{}' lacks nodes of its turns".format(spec.name))
    cancel, resume = controls["cancel"], controls["resume"]
    return PipelineTurns(
        begin=puts[0].name,
        end=puts[1].name,
        cancel=cancel.name,
        resume=resume.name,
        status_code=cancel.inputs[0].name,
        status_message=cancel.inputs[1].name,
        place=resume.inputs[0].name,
    )


def _exchange(spec: StageSpec, found: _Found) -> Optional[ExchangeTurns]:
    status = found.agreements.get(spec.name)
    if status is None:
        return None
    controls = found.controls.get(("", exchange_spec(spec).name), {})
    for role in (TURN, TURN_END, TURN_BEGUN, "cancel", "resume"):
        if role not in controls:
            _refuse("stage '{}' has no {} node for its exchange".format(spec.name, role))
    return ExchangeTurns(
        turn=controls[TURN].name,
        turn_end=controls[TURN_END].name,
        begun=controls[TURN_BEGUN].outputs[0].name,
        cancel=controls["cancel"].name,
        resume=controls["resume"].name,
        agreed_code=status.outputs[0].name,
        agreed_message=status.outputs[1].name,
        messages=tuple(sorted({_message(tensor.op) for tensor in status.inputs})),
    )


def _message(operation: Any) -> str:
    """What no two messages of a process may have in common while they are under way."""
    rank = operation.node_def.attr["rank"].i
    return "{} rank {} {}".format(_text(operation, "group"), rank, _text(operation, "message"))


def _upstream_first(stages: List[Stage]) -> List[Stage]:
    ordered: List[Stage] = []
    waiting = sorted(stages, key=lambda stage: stage.spec.is_prefetch)
    while waiting:
        unplaced = {stage.name for stage in waiting}
        ready = [stage for stage in waiting if not unplaced.intersection(stage.spec.upstream)]
        if not ready:
            _refuse("stages {} take from each other in a cycle".format(sorted(unplaced)))
        ordered.extend(ready)
        waiting = [stage for stage in waiting if stage not in ready]
    return ordered


def _buffer(operation: Any) -> _Buffer:
    return _text(operation, "container"), _text(operation, "shared_name")


def _text(operation: Any, attribute: str) -> str:
    return str(operation.get_attr(attribute).decode("utf-8"))


def _refuse(fault: str) -> NoReturn:
    raise tf.errors.InvalidArgumentError(None, None, "graph_opt: " + fault)
