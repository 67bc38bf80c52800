"""Weight decay of the rows with a gradient, before Adam moves them: `AdamWOptimizer`.

    rows = Gather(table, indices)
    table <- ScatterSub(indices, weight decay * rows)
    Adam's update, which waits for that

The indices are those of the update, each once.
"""

from __future__ import annotations

from typing import Set

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import Pattern, constant, one_of, op, tensor, through
from graph_opt.rules.op_names import GATHERS, UNIQUES
from graph_opt.rules.optimizers import adam
from graph_opt.rules.optimizers.several_ops import old_value, unread_after
from graph_opt.rules.optimizers.update_form import FoundUpdate
from graph_opt.rules.optimizers.update_inputs import hyperparameter, scalar

OPTIMIZER = "DecayingAdam"
_DECAYS = frozenset(["ScatterSub", "ResourceScatterSub"])


def is_row_decay(view: GraphView, name: str) -> bool:
    """Whether a node takes a part of some rows of a table away, and does nothing else."""
    return view.op(name) in _DECAYS and _PATTERN.match(Match(view), TensorRef(name, 0))


def after_row_decay(view: GraphView, update: FoundUpdate, decay: str) -> FoundUpdate:
    """An update together with the decay that comes before it.

    Args:
      view: The graph.
      update: The update without the decay.
      decay: A node that `is_row_decay`.

    Raises:
      Refusal: lookup_differs, table_updated_twice.
    """
    if update.optimizer != adam.OPTIMIZER:
        need = "a single update of the table, or a decay of rows before Adam's"
        raise Refusal("table_updated_twice", at=decay, need=need, saw=update.optimizer)
    found = Match(view)
    _PATTERN.match(found, TensorRef(decay, 0))
    own = {*found.nodes, *unread_after(view, [decay])}
    inside = own.union(update.nodes)
    _require_rows_of(view, update, found.tensors["indices"])
    _require_wait(view, update, own)
    for name in own:
        outside = [user for user in view.successors(name) if user not in inside]
        outside = [user for user in outside if view.op(user) != "Const"]
        if outside:
            need = "a decay that only the update waits for"
            raise Refusal("lookup_differs", at=decay, need=need, saw=outside[0])
    return update._replace(
        optimizer=OPTIMIZER,
        hyperparameters=(
            *update.hyperparameters,
            hyperparameter(view, found.tensors["weight_decay"]),
        ),
        nodes=tuple(dict.fromkeys([*update.nodes, *sorted(own)])),
    )


def _require_rows_of(view: GraphView, update: FoundUpdate, indices: TensorRef) -> None:
    """Refuses a decay of other rows than those that the update moves, each once."""
    is_unique = view.op(indices.node) in UNIQUES and indices.index == 0
    if not is_unique or indices.node not in update.nodes:
        need = "a decay of the rows of the update, each once"
        raise Refusal("lookup_differs", at=indices.node, need=need, saw=view.op(indices.node))


def _require_wait(view: GraphView, update: FoundUpdate, decay: Set[str]) -> None:
    """Refuses an update of which no part waits for the decay."""
    if not any(decay.intersection(view.controls(name)) for name in update.nodes):
        need = "an update that waits for the decay of rows"
        raise Refusal("lookup_differs", at=update.end, need=need, saw="one that does not")


def _pattern() -> Pattern:
    table, indices = tensor("table"), tensor("indices")
    rows = one_of(
        op("ResourceGather", table, indices),
        op(GATHERS, old_value("table"), indices, constant(0)),
        op(GATHERS, old_value("table"), indices),
    )
    lost = op("Mul", scalar(tensor("weight_decay")), through("Identity", rows))
    return op(_DECAYS, table, indices, lost)


_PATTERN = _pattern()
