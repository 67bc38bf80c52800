"""What a session says of steps that write hash tables which stages read ahead of them.

A pass leaves the lookups of a table in main if it sees that steps write the table. It cannot see
nodes that a script adds after the session's first run, and TensorFlow ignores edits from then on.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Mapping, NamedTuple, Optional, Set

from graph_opt.compat.graph_growth import operations_from
from graph_opt.compat.live_graph import functions_of
from graph_opt.compat.stateful_ops import MUTABLE_HASH_TABLES, called_functions
from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.passes.prefetch.written_hash_tables import table_identity, writes_table
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.rules.op_names import PASS_ON
from graph_opt.session.stage_reach import StageReach

_WRITTEN = (
    "'{}' writes hash table '{}' while stage '{}' looks up later batches in it, so that lookups "
    "miss what the last steps have written. To have them find it, {}, or open the session without "
    "do_async_embedding, do_smart_stage and graph_opt.staged"
)
_BUILT_LATE = "add '{}' before the session's first run, so that they stay in the step"
_RUN_LATE = "run '{}' before the first step that takes a batch"
_PASS_HANDLES_ON = PASS_ON | SWITCHES


class TableWrite(NamedTuple):
    """A write of a table that a stage reads.

    Attributes:
      writer: The node that writes it.
      table: The node that returns its handle.
      stage: The stage.
    """

    writer: str
    table: str
    stage: str


class WrittenTables:
    """Says so once, before a step that does while the stage runs.

    Args:
      graph: The graph of a session, after it was optimized.
      reach: Its stages.
    """

    def __init__(self, graph: Any, reach: StageReach) -> None:
        self._reach = reach
        self._count = len(operations_from(graph, 0))
        self._said = False

    def written_by(self, graph: Any, reached: Set[Any]) -> Optional[TableWrite]:
        """What a step writes that a stage reads; None for nothing, or if that was said before.

        Args:
          graph: The session's graph.
          reached: `operations_behind` the step.
        """
        tables = {} if self._said else self._reach.hash_tables()
        for operation in reached if tables else ():
            for tensor in operation.inputs:
                handle = _table_behind(tensor)
                stage = "" if handle is None else tables.get(table_identity(handle.node_def), "")
                if handle is not None and stage and _writes(graph, operation):
                    return TableWrite(operation.name, handle.name, stage)
        return None

    def before_step(self, graph: Any, write: TableWrite, started: AbstractSet[str]) -> None:
        """Looks at a step that writes a table.

        Args:
          graph: The session's graph.
          write: What it writes.
          started: The stages whose threads run.
        """
        if self._said or write.stage not in started:
            return
        self._said = True
        late = {operation.name for operation in operations_from(graph, self._count)}
        remedy = (_BUILT_LATE if write.writer in late else _RUN_LATE).format(write.writer)
        say_for_all_ranks(_WRITTEN.format(*write, remedy))


def _table_behind(tensor: Any) -> Optional[Any]:
    """The operation whose handle a tensor is, if it is one of a mutable hash table."""
    operation = tensor.op
    while operation.type in _PASS_HANDLES_ON:
        operation = operation.inputs[0].op
    return operation if operation.type in MUTABLE_HASH_TABLES else None


def _writes(graph: Any, operation: Any) -> bool:
    node = operation.node_def
    functions: Mapping[str, Any] = functions_of(graph) if called_functions([node]) else {}
    return writes_table(node, functions)
