"""What a session says of training that a script adds to a graph whose lookups run ahead of it.

`tf.gradients` goes backward from a loss, and ends at the buffer from which main takes rows: it
gives None for their tables, which such training leaves as they are.
"""

from __future__ import annotations

from typing import Any, Set

from graph_opt.compat.graph_growth import operations_from
from graph_opt.compat.variable_ops import TRAINS, is_use
from graph_opt.ops.late_training import TABLES_LEFT
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.runtime.stages import stages_of


class LateTraining:
    """Says so once, before a step that does such training.

    Args:
      graph: The graph of a session, after it was optimized.
    """

    def __init__(self, graph: Any) -> None:
        self._may_come = any(stage.spec.is_prefetch for stage in stages_of(graph))
        self._count = len(operations_from(graph, 0))
        self._version = graph.version

    def before_step(self, session: Any, reached: Set[Any]) -> None:
        """Looks at a step that the session has not run before.

        Args:
          session: The session.
          reached: `operations_behind` the step.
        """
        graph = session.graph
        if not self._may_come or graph.version == self._version:
            return
        new = operations_from(graph, self._count)
        if any(each in reached and is_use(each.type, TRAINS) for each in new):
            self._may_come = False
            say_for_all_ranks(TABLES_LEFT)
