"""Finds the updates on servers that another step can apply, and the weights that it can read.

    server   variables ─> reads ═══════════════════╗               pulled   reads of variables
    worker                       layers, gradients ║               sent     what updates take
    server   updates <═══════════════════════════════ sent         pushed   updates, and what on
                                                                            servers leads to them

An update stays in main if a step needs it there: main reads its variable by something other than
a whole value that could be read before (a lookup, say), or computes what is sent from what waits
for the update, or counts steps with it. What shares a variable with such an update stays as well.
So updates of tables move if all their lookups run ahead, but not those whose answers have rows for
the next step (passes/prefetch/exact/served_rows.py).

Powers, slots and averages are read and written in the stage alone, and so are never old.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.pipeline.conflicts import conflicts
from graph_opt.passes.pipeline.counters import Counter, counters
from graph_opt.passes.pipeline.cut import Cut
from graph_opt.passes.pipeline.training_step import RESOURCE, TrainingStep
from graph_opt.passes.transfers.task_borders import TaskBorders
from graph_opt.rules.op_names import PASS_ON, VARIABLES, WHOLE_READS

_REFERENCES = VARIABLES - {"VarHandleOp"}


class Waits(NamedTuple):
    """By what a node waits for updates.

    Attributes:
      sources: Its control inputs that lead to them.
      instead: Of what these wait for, the nodes of main.
    """

    sources: Tuple[str, ...]
    instead: Tuple[str, ...]


class PushedUpdates(NamedTuple):
    """What a stage can do in the place of main.

    Attributes:
      worker: Device of the task that computes gradients, its CPU.
      pulled: Tensors that main reads from servers, with the edges that read them.
      reads: The nodes that compute them from variables, each after its inputs.
      pushed: The updates, and the nodes on servers that lead to them, each after its inputs.
      updates: Those of `pushed` that change variables.
      sent: Tensors of main from which they are computed.
      waits: Nodes of main for which they wait.
      earlier: For nodes of main for which nodes of `pushed` wait, and which wait for updates
        themselves, those updates.
      followers: Nodes of main that wait for updates, and how.
      ends: What sessions may be told to run, and which is not in main: the same for these.
      counters: Those of `updates` that count steps.
      counts: Tensors with what an update has counted: its result, and reads behind it.
      counting: Nodes that come after such updates.
      before: For each update, the nodes of `pushed` that read what it changes, as it was before.
      copies: Tensors that such nodes send to another task, and whose memory updates change.
      tasks: For each node of `pushed` and `reads`, and of `pulled`, the task that runs it.
    """

    worker: str
    pulled: Dict[TensorRef, Tuple[Use, ...]]
    reads: Tuple[str, ...]
    pushed: Tuple[str, ...]
    updates: Tuple[str, ...]
    sent: Tuple[TensorRef, ...]
    waits: Tuple[str, ...]
    earlier: Dict[str, Tuple[str, ...]]
    followers: Dict[str, Waits]
    ends: Dict[str, Tuple[str, ...]]
    counters: Tuple[Counter, ...]
    counts: Dict[TensorRef, Counter]
    counting: FrozenSet[str]
    before: Dict[str, Tuple[str, ...]]
    copies: FrozenSet[TensorRef]
    tasks: Dict[str, Optional[str]]


class FoundUpdates(NamedTuple):
    """What can be pushed, if anything can, and why other updates cannot."""

    pushed: Optional[PushedUpdates]
    refusals: Tuple[Refusal, ...]


def pushed_updates(view: GraphView, not_run: AbstractSet[str]) -> FoundUpdates:
    """Finds what a stage can do in the place of main.

    Args:
      view: The graph.
      not_run: Nodes that no step of main runs.
    """
    borders = TaskBorders(view)
    if not borders.several:
        return FoundUpdates(None, ())
    try:
        step = TrainingStep(view, borders, not_run)
    except Refusal as refusal:
        return FoundUpdates(None, (refusal,))
    refusals: Dict[str, Refusal] = {}
    counted = counters(view, step)
    stays = {name for name in step.updates if step.counts_steps(name) and name not in counted}
    while True:
        moving = [name for name in step.updates if name not in stays]
        if not any(name in step.trained for name in moving):
            return FoundUpdates(None, tuple(refusals.values()))
        cut = Cut(view, step, moving, counted)
        staying = conflicts(cut)
        if not staying:
            return FoundUpdates(_Result(cut).pushed_updates(), tuple(refusals.values()))
        # What is after all other updates must not keep these from moving.
        staying = {name: staying[name] for name in staying if name in counted} or staying
        stays.update(staying)
        for name, reason in staying.items():
            if name in step.trained or name in counted:
                refusals.setdefault(name, reason)


class _Result:
    """What a good cut comes to."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._view = cut.view
        self._step = cut.step

    def pushed_updates(self) -> PushedUpdates:
        """All of it."""
        step = self._step
        pulled = self._pulled()
        reads = self._view.ancestors([tensor.node for tensor in pulled])
        return PushedUpdates(
            worker=step.worker,
            pulled=pulled,
            reads=tuple(
                name
                for name in step.nodes
                if name in reads and self._view.op(name) not in VARIABLES
            ),
            pushed=tuple(self._cut.pushed),
            updates=tuple(self._cut.order),
            sent=tuple(self._cut.sent),
            waits=tuple(self._cut.first),
            earlier=self._cut.earlier,
            followers=self._followers(),
            ends=self._ends(),
            counters=tuple(self._cut.counters.values()),
            counts=self._counts(),
            counting=frozenset(self._view.descendants(self._cut.counters)),
            before=self._before(),
            copies=self._copies(),
            tasks={
                name: step.task[name]
                for name in (
                    *self._cut.pushed,
                    *self._cut.counted,
                    *reads,
                    *(tensor.node for tensor in pulled),
                )
            },
        )

    def _before(self) -> Dict[str, Tuple[str, ...]]:
        view, step = self._view, self._step
        readers: Dict[str, List[str]] = {}
        for name in step.nodes:
            if name in self._cut.pushed and name in step.constant:
                for tensor in view.inputs(name):
                    readers.setdefault(tensor.node, []).append(name)
        return {
            update: tuple(
                dict.fromkeys(
                    name for each in sorted(step.written[update]) for name in readers.get(each, ())
                )
            )
            for update in self._cut.order
        }

    def _copies(self) -> FrozenSet[TensorRef]:
        view, task = self._view, self._step.task
        found = set()
        for name in self._cut.pushed:
            for tensor in view.inputs(name):
                source = tensor.node
                while view.op(source) in PASS_ON:
                    source = view.inputs(source)[0].node
                is_alias = source != tensor.node and view.op(source) in _REFERENCES
                if is_alias and tensor.node in self._cut.pushed and task[name] != task[tensor.node]:
                    found.add(tensor)
        return frozenset(found)

    def _pulled(self) -> Dict[TensorRef, Tuple[Use, ...]]:
        view, step = self._view, self._step
        found: Dict[TensorRef, List[Use]] = {}
        for name in step.nodes:
            reads = step.constant.get(name)
            if not reads or reads & self._cut.changed_in_main or not step.is_on_server(name):
                continue
            for tensor, use in view.node_uses(name):
                if self._cut.is_far(use.consumer) and view.dtype(tensor) != RESOURCE:
                    found.setdefault(tensor, []).append(use)
        return {tensor: tuple(uses) for tensor, uses in found.items()}

    def _followers(self) -> Dict[str, Waits]:
        view, instead = self._view, self._cut.instead
        found = {}
        for name in self._cut.main:
            if name in instead:
                continue
            sources = tuple(each for each in view.controls(name) if each in instead)
            if sources:
                found[name] = Waits(sources, tuple(self._cut.waited_for(sources)))
        return found

    def _ends(self) -> Dict[str, Tuple[str, ...]]:
        """Only what counts steps as the stage does; whatever else sessions run stays what it is."""
        cut = self._cut
        counts_all = set(cut.after)
        for name in cut.counters:
            counts_all.intersection_update(self._view.descendants([name]))
        found = {}
        for name, instead in cut.instead.items():
            is_counter = name in cut.counters or self._counted(name) is not None
            if name in counts_all and (is_counter or name not in cut.ahead):
                found[name] = instead
        return found

    def _counted(self, read: str) -> Optional[Counter]:
        """The counter whose new value main read behind its update."""
        if read not in self._cut.ahead or self._view.op(read) not in WHOLE_READS:
            return None
        variable = read
        while self._view.op(variable) in WHOLE_READS:
            variable = self._view.inputs(variable)[0].node
        above = [self._cut.counters.get(name) for name in self._view.predecessors(read)]
        return next((each for each in above if each and each.variable == variable), None)

    def _counts(self) -> Dict[TensorRef, Counter]:
        found = {TensorRef(name, 0): each for name, each in self._cut.counters.items()}
        for name in self._cut.instead:
            counter = self._counted(name)
            if counter is not None:
                found[TensorRef(name, 0)] = counter
        return found
