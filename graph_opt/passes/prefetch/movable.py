"""Which operations may run ahead of the step that uses their result.

An operation may move if running it early changes no values except those of the tables it reads: it
is stateless, or only reads state, or runs exactly once per batch in either region.
"""

from __future__ import annotations

import itertools
from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Optional

from graph_opt.compat.op_definitions import is_registered, is_stateful
from graph_opt.compat.stateful_ops import (
    CONSTANT_HANDLES,
    CONSTANT_READS,
    FINDS_ROWS,
    FUNCTION_CALLS,
    HANDLES,
    NUMBERS_KEYS,
    ONCE_A_BATCH,
    PLACEHOLDERS,
    RANDOM,
    READS,
    VARIABLES,
    called_functions,
)
from graph_opt.graph.control_flow_ops import LOOPS, MERGES
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.prefetch.written_hash_tables import hash_table_writers, written_inputs
from graph_opt.rules.op_names import ALL_TO_ALL

SHAPE_OPERATIONS = frozenset(["Shape", "ShapeN", "Size", "Rank", "VariableShape"])
_READ_ROW_BY_ROW = NUMBERS_KEYS | FINDS_ROWS
_COLLECTIVE_PREFIXES = (
    *("Horovod", ALL_TO_ALL, "Collective"),
    *("NcclAllReduce", "NcclReduce", "NcclBroadcast"),
)


class Outside(NamedTuple):
    """What is upstream of a tensor that depends on no IO stage.

    Attributes:
      blocker: A placeholder, a stateful operation that must not run in two regions, or one that
        reads what steps write.
      variable: A variable whose whole value is read.
    """

    blocker: Optional[str]
    variable: Optional[str]


_NOTHING = Outside(None, None)


class Movability:
    """Decides about single operations of one graph, caching what is upstream of them.

    Args:
      view: The graph.
      threads_num: Number of prefetch threads; with several, batches would get the draws of a
        seeded random operation in another order.
      constant_state: Whether only state that steps do not change may be read.
    """

    def __init__(self, view: GraphView, threads_num: int, constant_state: bool = False) -> None:
        self._view = view
        self._threads_num = threads_num
        self._reads = CONSTANT_READS if constant_state else READS
        self._handles = CONSTANT_HANDLES if constant_state else HANDLES
        self._written = hash_table_writers(view)
        self._written_inputs = written_inputs(view, self._written)
        self._outside: Dict[str, Outside] = {}

    def refuse_operation(self, name: str) -> Optional[Refusal]:
        """Why the operation itself cannot move, regardless of its inputs."""
        op = self._view.op(name)
        if not is_registered(op):
            return self._refuse_unknown(name)
        if op in LOOPS:
            return Refusal("loop_upstream", at=name, need="no tf.while_loop before it", saw=op)
        if op.startswith(_COLLECTIVE_PREFIXES):
            need = "the same order of collectives on all ranks"
            return Refusal("collective_upstream", at=name, need=need, saw=op)
        if op in RANDOM:
            return self._refuse_random(name)
        if name in self._written:
            return self._refuse_written(name)
        if op in FUNCTION_CALLS:
            return self.refuse_function(name)
        if not is_stateful(op) or op in self._reads or op in ONCE_A_BATCH or op in self._handles:
            return None
        return Refusal(
            "stateful_upstream", at=name, need="operations that only read state", saw="op " + op
        )

    def _refuse_random(self, name: str) -> Optional[Refusal]:
        seeds = [self._view.attribute(name, key) for key in ("seed", "seed2")]
        if self._threads_num == 1 or not any(seed is not None and seed.i for seed in seeds):
            return None
        return Refusal(
            "seeded_random_with_threads",
            at=name,
            need="threads_num 1, so that each batch gets its own draw",
            saw="threads_num {}".format(self._threads_num),
        )

    def refuse_datasets(self, nodes: Iterable[str]) -> Optional[Refusal]:
        """Why batches that come from behind these nodes cannot be read ahead of the step.

        Args:
          nodes: Sources of batches, or iterators.
        """
        for name in self._view.ancestors(nodes) if self._written_inputs else ():
            if name in self._written_inputs:
                return self._refuse_written(self._written_inputs[name])
        return None

    def _refuse_written(self, name: str) -> Refusal:
        writer = self._written[name]
        need = "a hash table that steps do not write"
        saw = "{} '{}'".format(self._view.op(writer), writer)
        return Refusal("hash_table_written", at=name, need=need, saw=saw)

    def _refuse_unknown(self, name: str) -> Refusal:
        need = "an op that this process has registered, to tell whether it has state"
        return Refusal("unknown_op", at=name, need=need, saw="op " + self._view.op(name))

    def refuse_function(self, name: str, also: FrozenSet[str] = frozenset()) -> Optional[Refusal]:
        """Why a node that calls functions cannot move: an operation in them that must not.

        Args:
          name: The node.
          also: Stateful ops that may be in its functions, too.
        """
        movable = self._reads | ONCE_A_BATCH | FUNCTION_CALLS | also
        pending = called_functions([self._view.nodes[name]])
        seen = set(pending)
        while pending:
            called = pending.pop()
            function = self._view.functions.get(called)
            for node in function.node_def if function is not None else ():
                if node.op not in movable and is_stateful(node.op):
                    return Refusal(
                        "stateful_upstream",
                        at=name,
                        need="functions that only read state",
                        saw="op {} in function {}".format(node.op, called),
                    )
                fresh = [other for other in called_functions([node]) if other not in seen]
                seen.update(fresh)
                pending.extend(fresh)
        return None

    def refuse_outside(self, name: str, source: str, reads_table: bool) -> Optional[Refusal]:
        """Why node `name` cannot read `source`, which no batch reaches, once it has moved.

        Args:
          name: The node that would move.
          source: One of its inputs, which depends on no IO stage.
          reads_table: Whether `name` is a recognised read of table rows.
        """
        outside = self.outside(source)
        if outside.blocker is not None:
            return self._refuse_blocker(outside.blocker)
        by_row = reads_table or self._view.op(name) in _READ_ROW_BY_ROW
        if outside.variable is None or by_row:
            return None
        return Refusal(
            "dense_variable_upstream",
            at=name,
            need="no read of a whole variable before the lookup",
            saw="variable " + outside.variable,
        )

    def refuse_placeholder(self, name: str) -> Optional[Refusal]:
        """A refusal if node `name`, which no batch reaches, depends on what `session.run` feeds."""
        blocker = self.outside(name).blocker
        if blocker is None or self._view.op(blocker) not in PLACEHOLDERS:
            return None
        return self._refuse_blocker(blocker)

    def _refuse_blocker(self, blocker: str) -> Refusal:
        if blocker in self._written:
            return self._refuse_written(blocker)
        op = self._view.op(blocker)
        if op in PLACEHOLDERS:
            return Refusal(
                "placeholder_upstream",
                at=blocker,
                need="ids only from the IO stage (graph_opt.staged(..., feed_dict=) can feed it)",
                saw=op,
            )
        return Refusal(
            "control_edge_from_main",
            at=blocker,
            need="no operation of main before it",
            saw="op " + op,
        )

    def outside(self, source: str) -> Outside:
        """What is upstream of `source`, including itself; computed once for each node."""
        stack: List[str] = [source]
        while stack:
            name = stack[-1]
            if name in self._outside:
                stack.pop()
                continue
            above = () if self._is_leaf(name) else self._sources(name)
            unknown = [node for node in above if node not in self._outside]
            if unknown:
                stack.extend(unknown)
                continue
            self._outside[name] = self._combine(name, above)
            stack.pop()
        return self._outside[source]

    def _sources(self, name: str) -> List[str]:
        view = self._view
        if view.op(name) in MERGES:
            # Skip back edges of loops; a loop is refused at its Enter.
            data = [t.node for t in view.inputs(name) if view.op(t.node) not in LOOPS]
        else:
            data = [tensor.node for tensor in view.inputs(name)]
        return list(itertools.chain(data, view.controls(name)))

    def _is_leaf(self, name: str) -> bool:
        op = self._view.op(name)
        return op in VARIABLES or op in self._handles or op in PLACEHOLDERS

    def _combine(self, name: str, above: Iterable[str]) -> Outside:
        op = self._view.op(name)
        if op in PLACEHOLDERS:
            return Outside(name, None)
        if op in VARIABLES:
            return Outside(None, name)
        if op in self._handles:
            return _NOTHING
        if (op not in self._reads and is_stateful(op)) or name in self._written:
            return Outside(name, None)
        blockers = [self._outside[node].blocker for node in above]
        variables = [self._outside[node].variable for node in above]
        if op in SHAPE_OPERATIONS:
            variables = []
        blocker = next((found for found in blockers if found is not None), None)
        variable = next((found for found in variables if found is not None), None)
        return Outside(blocker, variable) if blocker or variable else _NOTHING
