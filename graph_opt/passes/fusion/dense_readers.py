"""Which readers of whole tables a training step runs: these make a deferred update dense again."""

from __future__ import annotations

from typing import Dict, Iterable, Set, Tuple

from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.merge_order import waiting_for
from graph_opt.passes.fusion.table_reads import TableRead
from graph_opt.reporting.outcomes import DenseReader
from graph_opt.rules.op_names import ALL_ASSIGNS


def dense_readers(
    view: GraphView, rewritten: GraphView, reads: Iterable[TableRead], ends: Iterable[str]
) -> Tuple[DenseReader, ...]:
    """Describes the readers of whole tables.

    Args:
      view: The graph before its updates were replaced.
      rewritten: The graph since: it may read less, such as no table for the gradient of a penalty.
      reads: The edges through which tables and slots are read.
      ends: The nodes after which the tables are updated.
    """
    tables: Dict[str, Dict[str, None]] = {}
    for read in reads:
        tables.setdefault(read.node, {})[read.shard.table] = None
    steps = [name for name in _steps(view, ends) if name in rewritten] if tables else []
    trained = rewritten.ancestors(steps)
    return tuple(
        DenseReader(node, view.op(node), tuple(read), node in trained)
        for node, read in tables.items()
        if node in trained or _is_worth_naming(view, node)
    )


def _steps(view: GraphView, ends: Iterable[str]) -> Set[str]:
    """The train ops: what waits for the updates, up to the last NoOp or assignment."""
    found: Set[str] = set()
    for end in ends:
        found.update(name for name in waiting_for(view, end) if not _is_left_unread(view, name))
    following = view.descendants(found)
    return found.union(
        name for name in following if view.op(name) == "NoOp" and not view.successors(name)
    )


def _is_worth_naming(view: GraphView, node: str) -> bool:
    """Whether it is a reader that someone may run: every variable has an assignment and a read."""
    if view.op(node) in ALL_ASSIGNS:  # an initializer or a restored checkpoint
        return False
    return not _is_left_unread(view, node)


def _is_left_unread(view: GraphView, node: str) -> bool:
    """Whether it is a read as TensorFlow adds to each assignment, in case that is fetched.

    It waits for all that the assignment waits for, such as the train op before an average.
    """
    return view.op(node) == "ReadVariableOp" and not view.successors(node)
