"""Why updates cannot be pushed after all, if they were chosen to be."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterator, Tuple

from graph_opt.compat.op_definitions import is_stateful, is_value, takes_reference
from graph_opt.compat.stateful_ops import FUNCTION_CALLS
from graph_opt.graph.refusal import Refusal
from graph_opt.passes.pipeline.cut import Cut
from graph_opt.rules.op_names import KEEP_SERVED, VARIABLES

_NONE: FrozenSet[str] = frozenset()
Conflict = Tuple[str, Refusal]


def conflicts(cut: Cut) -> Dict[str, Refusal]:
    """The updates that must stay in main, and why; none if the cut is a good one."""
    found: Dict[str, Refusal] = {}
    for find in (
        _in_control_flow,
        _answered,
        _shared,
        _results_read,
        _read_in_main,
        _waited_for,
        _references,
    ):
        for name, refusal in find(cut):
            found.setdefault(name, refusal)
        if found:
            break
    return found


def _in_control_flow(cut: Cut) -> Iterator[Conflict]:
    for name in cut.pushed:
        op = cut.view.op(name)
        if name in cut.step.sometimes or op in FUNCTION_CALLS:
            for update in cut.behind(name):
                refusal = Refusal(
                    "pipeline_in_control_flow",
                    at=update,
                    need="an update that each training step runs once",
                    saw="a {} in a tf.cond, tf.while_loop or function".format(op),
                )
                yield update, refusal


def _answered(cut: Cut) -> Iterator[Conflict]:
    """Whose new rows the next step needs."""
    for update in cut.order:
        keeps = [each for each in cut.view.successors(update) if cut.view.op(each) == KEEP_SERVED]
        if keeps:
            yield update, _read(cut, update, keeps[0], "its new rows")


def _shared(cut: Cut) -> Iterator[Conflict]:
    """Variables that other updates change in main."""
    for update in cut.order:
        both = cut.step.written[update] & cut.changed_in_main
        if both:
            yield update, _read(cut, update, update, min(both))


def _results_read(cut: Cut) -> Iterator[Conflict]:
    for name in cut.main:
        for tensor in cut.view.inputs(name):
            if tensor.node in cut.ahead:
                for update in cut.view.ancestors([tensor.node]):
                    if update in cut.moving:
                        yield update, _read(cut, update, name, "its result")


def _read_in_main(cut: Cut) -> Iterator[Conflict]:
    for name in cut.main:
        read = _reads(cut, name) & cut.changed
        for update in cut.order if read else ():
            both = read & cut.step.written[update]
            if both:
                yield update, _read(cut, update, name, min(both))


def _reads(cut: Cut, name: str) -> FrozenSet[str]:
    """The variables that a node of main reads otherwise than by a value that can be pulled."""
    view, step = cut.view, cut.step
    if not step.is_on_server(name):
        return frozenset(
            tensor.node
            for slot, tensor in enumerate(view.inputs(name))
            if view.op(tensor.node) in VARIABLES and takes_reference(view.nodes[name], slot)
        )
    if name not in step.constant:
        above = [each.node for each in view.inputs(name) if step.is_on_server(each.node)]
        return _NONE.union(*(step.constant.get(each, _NONE) for each in above))
    if not any(cut.is_far(each) for each in view.readers(name)):
        return _NONE
    read = step.constant[name]
    if read & cut.changed_in_main:
        return read
    return frozenset(each for each in read & cut.changed if not _may_miss_update(cut, each))


def _may_miss_update(cut: Cut, variable: str) -> bool:
    """Whether it is trained: state of optimizers, and what steps overwrite, must not be old."""
    if variable in cut.counted:
        return True  # What main is given is not old.
    step, is_trained = cut.step, False
    for update in cut.order:
        if variable not in step.written[update]:
            continue
        first = cut.view.through_identity(cut.view.inputs(update)[0]).node
        if update in step.trained and first == variable:
            is_trained = True
        elif update not in cut.after:
            return False
    return is_trained


def _waited_for(cut: Cut) -> Iterator[Conflict]:
    view, step = cut.view, cut.step
    for update in cut.order:
        if update in cut.counters and update in cut.after:
            continue  # Sessions run what it waits for.
        if not any(each in step.inside for each in view.successors(update)):
            yield update, _waits(update, "nothing, so steps run it themselves")
    sent = [tensor.node for tensor in cut.sent] + list(cut.first)
    for update in view.ancestors(sent):
        if update in cut.moving:
            yield update, _waits(update, "what computes gradients")
    for name in cut.pushed:
        if _draws_or_reads(cut, name):
            for update in cut.behind(name):
                yield update, _waits(update, "'{}'".format(name))


def _draws_or_reads(cut: Cut, name: str) -> bool:
    """Whether a node that comes after updates gives something else if main runs beside it."""
    view, step = cut.view, cut.step
    if name in cut.moving or name in step.constant:
        return False
    if not step.is_on_server(name) and is_stateful(view.op(name)):
        return True
    return any(tensor.node in cut.changed_in_main for tensor in view.inputs(name))


def _references(cut: Cut) -> Iterator[Conflict]:
    """References cannot be sent."""
    for tensor in cut.sent:
        dtype = cut.view.dtype(tensor)
        if dtype is None or not is_value(dtype):
            for update in cut.behind(tensor.node):
                yield update, _read(cut, update, tensor.node, "a reference")


def _read(cut: Cut, update: str, reader: str, what: str) -> Refusal:
    return Refusal(
        "pipeline_read_in_main",
        at=update,
        need="variables that steps read as whole values, before updates",
        saw="'{}' ({}), which uses {} in the step itself".format(reader, cut.view.op(reader), what),
    )


def _waits(update: str, what: str) -> Refusal:
    return Refusal(
        "pipeline_waited_for",
        at=update,
        need="only the end of a step to wait for an update",
        saw=what,
    )
