"""Optimizers that TensorFlow lacks: each update of rows is an op of graph_opt's own.

    GroupEmbeddingApply | ResourceGroupEmbeddingApply
        (table, slots, hyperparameters, rows, nothing, nothing, values)

Of one table, as `graph_opt.ops.row_updates` writes it. It moves only the rows that it names, with
Adam, too.
"""

from __future__ import annotations

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.rules.gradients.gather import Slices
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import op, tensor
from graph_opt.rules.op_names import OWN_UPDATES
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm
from graph_opt.rules.optimizers.update_inputs import hyperparameter, listed_flags

# Table, ids, positions, shapes and gradients, of one table and one lookup without weights.
_INPUTS_BESIDE_OPTIMIZER = 5


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    spec = optimizer_specs()[_text(view, writer, "optimizer")]
    num_slots, num_values = len(spec.slots), len(spec.hyperparameters)
    inputs = view.inputs(writer)
    if not _is_of_one_table(view, writer, len(inputs) - num_slots - num_values):
        need = "an update of one table that fuses nothing yet"
        raise Refusal("optimizer_unknown", at=writer, need=need, saw=view.op(writer))
    rows, values = inputs[-4], inputs[-1]
    return FoundUpdate(
        optimizer=spec.name,
        slots=tuple(inputs[1 : 1 + num_slots]),
        hyperparameters=tuple(
            hyperparameter(view, value)
            for value in inputs[1 + num_slots : 1 + num_slots + num_values]
        ),
        attributes=listed_flags(view, writer, spec),
        slices=(Slices(values, rows),),
        end=writer,
        nodes=tuple(found.nodes),
        is_lazy=True,
    )


def _is_of_one_table(view: GraphView, writer: str, num_inputs: int) -> bool:
    attributes = view.nodes[writer].attr
    return (
        num_inputs == _INPUTS_BESIDE_OPTIMIZER
        and attributes["num_shards"].i == 1
        and attributes["num_lookups"].i == 1
        and list(attributes["layouts"].list.s) == [b"dense"]
        and list(attributes["combiners"].list.s) == [b"sum"]
        and not attributes["safe"].b
        and not attributes["row_states"].list.s
        and not attributes["columns"].list.i
    )


def _text(view: GraphView, node: str, name: str) -> str:
    value = view.attribute(node, name)
    return "" if value is None else value.s.decode()


FORM = UpdateForm(OWN_UPDATES, op(OWN_UPDATES, tensor("table"), ...), _read)
