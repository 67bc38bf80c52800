"""AMSGrad: Adam that divides by the largest second moment so far. Recognised to say why it stays.

greatest <- Assign(greatest, Maximum(greatest, v))
table <- AssignSub(rate * m / (sqrt(greatest) + epsilon))
or [Resource]ApplyAdamWithAmsgrad
"""

from __future__ import annotations

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import ANY, Pattern, one_of, op
from graph_opt.rules.optimizers.update_form import FoundUpdate, UpdateForm

_SUBTRACTIONS = frozenset(["AssignSub", "AssignSubVariableOp"])
_APPLY_OPS = frozenset(["ResourceApplyAdamWithAmsgrad"])


def _pattern() -> Pattern:
    maximum = op("Maximum", ANY, ANY)
    assigned = op(("Assign", "AssignVariableOp"), ANY, maximum)
    greatest = one_of(op("ReadVariableOp", ANY).after(assigned), assigned, maximum)
    divisor = op(("Add", "AddV2"), op("Sqrt", greatest), ANY)
    return one_of(op(_APPLY_OPS, ...), op(_SUBTRACTIONS, ANY, op("RealDiv", ANY, divisor)))


def _read(view: GraphView, writer: str, found: Match) -> FoundUpdate:
    raise Refusal(
        "amsgrad_updates_whole_table",
        at=writer,
        need="an optimizer that docs/optimizers.md lists",
        saw="AMSGrad, which moves every row of the table and of its three slots in each step",
    )


FORM = UpdateForm(_SUBTRACTIONS | _APPLY_OPS, _pattern(), _read)
