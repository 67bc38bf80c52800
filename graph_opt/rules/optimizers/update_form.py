"""What a recogniser of updates is: a pattern, and how to read what it matched."""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, Iterable, NamedTuple, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern
from graph_opt.rules.optimizers.update_inputs import Hyperparameter

# The name that patterns bind a gradient to which is as large as the table.
GRADIENT = "gradient"


class FoundUpdate(NamedTuple):
    """An update of one variable.

    Attributes:
      slices: The IndexedSlices whose sum is applied, before they are taken apart.
      is_lazy: Whether it moves no other rows, even if TensorFlow's update by the optimizer does.
      The others: As in `SparseUpdate`.
    """

    optimizer: str
    slots: Tuple[TensorRef, ...]
    hyperparameters: Tuple[Hyperparameter, ...]
    attributes: Dict[str, bool]
    slices: Tuple[Slices, ...]
    end: str
    nodes: Tuple[str, ...]
    slot_ends: Tuple[str, ...] = ()
    is_lazy: bool = False


class UpdateForm(NamedTuple):
    """A way in which optimizers write the update of a table.

    Attributes:
      ends: Types of the op that writes the table.
      pattern: That op, and all that computes what it writes.
      read: Reads the update from the name of that op and its match. It raises a refusal if the rest
        of the graph does not fit: of code lookup_differs, or of a code of its own for an optimizer
        that is known but cannot be fused.
    """

    ends: FrozenSet[str]
    pattern: Pattern
    read: Callable[[GraphView, str, Match], FoundUpdate]


def matched_slices(found: Match) -> Tuple[Slices, ...]:
    """The one IndexedSlices that `summed` matched."""
    return (Slices(found.tensors["values"], found.tensors["indices"]),)


def read_update(view: GraphView, writer: str, forms: Iterable[UpdateForm]) -> FoundUpdate:
    """The update that ends in `writer`, by the first form that matches.

    Raises:
      Refusal: The mismatch of the form that came furthest, or what that form's `read` raises.
    """
    furthest: Optional[Match] = None
    for form in forms:
        match = Match(view)
        if form.pattern.match(match, TensorRef(writer, 0)):
            return form.read(view, writer, match)
        if furthest is None or match.steps > furthest.steps:
            furthest = match
    refusal = furthest.refusal() if furthest is not None else None
    assert refusal is not None
    raise refusal
