"""What sums the gradients that ranks send each other: each row comes once, in ascending order."""

from __future__ import annotations

import itertools
from typing import Any

from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.operation_marks import has_attribute, mark_once

EXCHANGE_SUMS = "ExchangeGatherGrad"
_GRAPH = "_graph_opt_graph"
_numbers = itertools.count(1)


def note_graph(sums: Any) -> None:
    """Marks such an operation as one of its graph: in others, there may be one of the same name.

    Args:
      sums: The operation, before a session runs it.
    """
    mark_once(sums, _GRAPH, kept_with(sums.graph, _GRAPH, lambda: str(next(_numbers))))


def name_in_process(sums: Any) -> str:
    """The name of such an operation, with the number of its graph if that was noted."""
    number = sums.get_attr(_GRAPH).decode("utf-8") if has_attribute(sums, _GRAPH) else ""
    return "{}/{}".format(number, sums.name)
