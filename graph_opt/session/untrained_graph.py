"""What a session still has to say of a graph that trained nothing when it was first run."""

from __future__ import annotations

from typing import Any, Set

from graph_opt.compat.stateful_ops import FUNCTION_CALLS
from graph_opt.reporting.report import Report
from graph_opt.rules.op_names import GATHERS_ND, ROW_GATHERS
from graph_opt.session.graph_records import is_left_alone, report_of_passes
from graph_opt.session.optimization import is_training_graph, leaves_inference
from graph_opt.session.session_log import note_session

_LOOK_ROWS_UP = ROW_GATHERS | GATHERS_ND | FUNCTION_CALLS
_TRAINING_ADDED_LATE = (
    "training was added to the graph after the session had run it, and TensorFlow ignores edits "
    "from then on: build the model before the session's first run, or open another session"
)


class UntrainedGraph:
    """Says in time what became of such a graph; nothing of any other.

    Sessions that only load, save or export weights, as Keras' and those of exports do, give nothing
    to optimize: of them nothing is said until a run looks rows up.

    Args:
      graph: The graph of a session, after it was optimized.
    """

    def __init__(self, graph: Any) -> None:
        self._may_train_later = is_left_alone(graph) and not is_training_graph(graph)
        self._says_later = self._may_train_later and leaves_inference(report_of_passes(graph))
        self._version = graph.version

    def first_run(self, session: Any) -> None:
        """Says what became of the graph, unless that waits for a run that looks rows up."""
        note_session(session, None if self._says_later else report_of_passes(session.graph))

    def before_step(self, session: Any, reached: Set[Any]) -> None:
        """Says that training came late, or why lookups are TensorFlow's, once.

        Args:
          session: The session.
          reached: `operations_behind` a step that it has not run before.
        """
        self._report_late_training(session)
        if self._says_later and any(operation.type in _LOOK_ROWS_UP for operation in reached):
            self._says_later = False
            note_session(session, report_of_passes(session.graph))

    def _report_late_training(self, session: Any) -> None:
        graph = session.graph
        if not self._may_train_later or graph.version == self._version:
            return
        self._version = graph.version
        if is_training_graph(graph):
            self._may_train_later = self._says_later = False
            note_session(session, Report(left_alone=(_TRAINING_ADDED_LATE,)))
