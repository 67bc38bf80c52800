"""What sums the gradients that ranks send each other: each row comes once, in ascending order."""

from __future__ import annotations

import itertools
from typing import Any

from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.operation_marks import has_attribute, mark_once

EXCHANGE_SUMS = "ExchangeGatherGrad"
GRAPH_NUMBER = "_graph_opt_graph"
"""On what sums: the number that its graph has in the process, which may differ from run to run."""
_numbers = itertools.count(1)


def note_graph(sums: Any) -> None:
    """Marks such an operation as one of its graph: in others, there may be one of the same name.

    Args:
      sums: The operation, before a session runs it.
    """
    mark_once(sums, GRAPH_NUMBER, kept_with(sums.graph, GRAPH_NUMBER, lambda: str(next(_numbers))))


def name_in_process(sums: Any) -> str:
    """The name of such an operation, with the number of its graph if that was noted."""
    number = sums.get_attr(GRAPH_NUMBER) if has_attribute(sums, GRAPH_NUMBER) else b""
    return "{}/{}".format(number.decode("utf-8"), sums.name)
