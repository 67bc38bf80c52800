"""What updates take of a batch: gradients of whole variables, and slices of tables.

    gradient ------------------> ApplyAdam(weights, ..., gradient)
    values, indices -> Unique -> UnsortedSegmentSum -> SparseApplyAdam(table, ...)

What an optimizer of graph_opt marks as gradient (`compat/gradient_marks.py`) is one, too.

Gradients of batches add up. Slices of batches are joined where they are slices yet, so that the
update sums those of the same row, as it does within a batch.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

from graph_opt.compat.gradient_marks import is_marked_gradient
from graph_opt.compat.op_definitions import op_definition
from graph_opt.compat.stateful_ops import FUNCTION_CALLS, VARIABLES, functions_only_read
from graph_opt.compat.variable_ops import CHANGES, TAKES_GRADIENTS, TRAINS, is_use
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.control_flow import depths
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, sparse_updates

_GRADIENTS = frozenset(["grad", "delta", "gradient"])
_WRITES = CHANGES - TRAINS
_ROWS = frozenset(["indices", "gradient_indices"])
# Of these is the step of an average that is no gradient, such as batch normalization's.
_AVERAGES = frozenset(
    ["Identity", "Sub", "Mul", "AddV2", "Neg", "Cast", "RealDiv", "Switch", "Merge", "Select",
     "ReadVariableOp", "SelectV2", "Squeeze"]
)  # fmt: skip
_NEED = "an optimizer of which graph_opt knows what it takes as gradient"


class Gradient(NamedTuple):
    """A tensor that an update takes.

    Attributes:
      tensor: The tensor.
      joined: Whether those of batches are joined along the first axis, rather than added up.
      uses: The edges to the update.
    """

    tensor: TensorRef
    joined: bool
    uses: Tuple[Use, ...]


def taken_gradients(view: GraphView, sources: Sequence[str]) -> List[Gradient]:
    """All that updates take of a batch.

    Args:
      view: The graph.
      sources: The nodes that return batches.

    Raises:
      Refusal: update_not_summed.
    """
    batch = frozenset(view.descendants(sources))
    updates = sparse_updates(view, view.of_op(*sorted(VARIABLES))).found.values()
    # A penalty on a whole table is part of the gradient that is as large.
    of_slices = [update for update in updates if not update.optimizer.endswith("L2")]
    inside = {name for update in of_slices for name in update.nodes}
    found = [each for update in of_slices for each in _slices(view, update, batch)]
    marked = [name for name in view.nodes if is_marked_gradient(view.nodes[name])]
    inside.update(_data(view, marked, GraphView.readers))
    whole = [Gradient(view.inputs(name)[0], False, (Use(name, 0),)) for name in marked]
    for name in view.nodes:
        if name not in inside and is_use(view.op(name), TAKES_GRADIENTS):
            whole.extend(_whole(view, name, batch))
    found.extend(each for each in whole if _is_of_batch(view, each.tensor, batch))
    taken = _once(found)
    _refuse_branches(view, taken)
    _refuse_other_updates(view, _data(view, sources, GraphView.readers), inside, taken)
    return taken


def _slices(view: GraphView, update: SparseUpdate, batch: AbstractSet[str]) -> Iterator[Gradient]:
    nodes = set(update.nodes)
    for part in update.parts:
        if not any(_is_of_batch(view, tensor, batch) for tensor in part):
            continue
        for tensor in part:
            uses = tuple(use for use in view.uses(tensor) if use.consumer in nodes)
            if not uses:
                raise Refusal("update_not_summed", at=update.end, need=_NEED, saw="another part")
            yield Gradient(tensor, True, uses)


def _once(gradients: List[Gradient]) -> List[Gradient]:
    """One for each tensor: lookups of the same ids share indices."""
    found: Dict[Tuple[TensorRef, bool], Dict[Use, None]] = {}
    for each in gradients:
        found.setdefault((each.tensor, each.joined), {}).update(dict.fromkeys(each.uses))
    return [Gradient(tensor, joined, tuple(uses)) for (tensor, joined), uses in found.items()]


def _whole(view: GraphView, name: str, batch: AbstractSet[str]) -> List[Gradient]:
    definition = op_definition(view.op(name))
    arguments = [] if definition is None else [each.name for each in definition.input_arg]
    slots = [slot for slot, argument in enumerate(arguments) if argument in _GRADIENTS]
    if _ROWS.intersection(arguments) or not slots:
        if name in batch:
            raise Refusal("update_not_summed", at=name, need=_NEED, saw=view.op(name))
        return []
    return [Gradient(view.inputs(name)[slots[0]], False, (Use(name, slots[0]),))]


def _is_of_batch(view: GraphView, tensor: TensorRef, batch: AbstractSet[str]) -> bool:
    """Whether it is; so is a penalty alone, which the loss of each batch has."""
    if tensor.node in batch:
        return True
    before = view.ancestors([tensor.node])
    return any(view.op(name) in VARIABLES for name in before) and not any(
        view.op(name).startswith("Placeholder") for name in before
    )


def _refuse_branches(view: GraphView, taken: List[Gradient]) -> None:
    """Refuses updates that run only if a condition holds, which each batch would decide."""
    inside = depths(view) if taken else {}
    for use in (use for each in taken for use in each.uses):
        if inside[use.consumer]:
            need = "updates that run in every step"
            raise Refusal("update_not_summed", at=use.consumer, need=need, saw="a branch or loop")


def _refuse_other_updates(
    view: GraphView, computed: AbstractSet[str], known: AbstractSet[str], taken: List[Gradient]
) -> None:
    """Refuses what changes trained variables in ways in which gradients cannot be told apart."""
    for name in view.of_op(*sorted(FUNCTION_CALLS)):
        if name in computed and not functions_only_read(view.nodes[name], view.functions):
            raise Refusal(
                "update_not_summed", at=name, need=_NEED, saw="a function that may update"
            )
    read = _data(view, [each.tensor.node for each in taken], _sources)
    for name in view.nodes:
        if not is_use(view.op(name), _WRITES) or name in known or len(view.inputs(name)) < 2:
            continue
        variable = view.through_identity(view.inputs(name)[0]).node
        values = [tensor.node for tensor in view.inputs(name)[1:] if tensor.node in computed]
        if values and (variable in read or not taken):
            if _is_trained(view, variable, values, computed):
                raise Refusal("update_not_summed", at=name, need=_NEED, saw=view.op(name))


def _is_trained(
    view: GraphView, variable: str, values: List[str], computed: AbstractSet[str]
) -> bool:
    """Whether what is written comes from the variable by way of layers."""
    behind = _data(view, [variable], GraphView.readers)
    pending, seen = list(values), set(values)
    while pending:
        name = pending.pop()
        if name not in behind or name not in computed:
            continue
        if view.op(name) not in _AVERAGES:
            return True
        fresh = [each for each in _sources(view, name) if each not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return False


def _sources(view: GraphView, name: str) -> List[str]:
    return [tensor.node for tensor in view.inputs(name)]


def _data(
    view: GraphView, begins: Iterable[str], step: Callable[[GraphView, str], List[str]]
) -> Set[str]:
    """What is reached from nodes along edges that carry data, with these."""
    found = set(begins)
    pending = list(found)
    while pending:
        fresh = [each for each in step(view, pending.pop()) if each not in found]
        found.update(fresh)
        pending.extend(fresh)
    return found
