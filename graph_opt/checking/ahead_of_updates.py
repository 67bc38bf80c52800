"""What of a rewritten graph runs before the updates of the steps before it, and may miss them."""

from __future__ import annotations

from typing import Any, Tuple

from graph_opt.checking.records import LOOKUPS, WEIGHTS
from graph_opt.reporting.outcomes import MOVED
from graph_opt.runtime.stages import stages_of
from graph_opt.session.graph_records import report_of


def ahead_of_updates(graph: Any) -> Tuple[str, ...]:
    """`LOOKUPS` if any lookup is in a stage, `WEIGHTS` if a stage pulls weights; else nothing.

    Args:
      graph: A `tf.Graph`, rewritten or not.
    """
    report = report_of(graph)
    lookups = report.lookups if report is not None else ()
    has_ahead = {
        LOOKUPS: any(one.outcome == MOVED for one in lookups),
        WEIGHTS: any(stage.spec.is_pipeline for stage in stages_of(graph)),
    }
    return tuple(name for name, is_ahead in has_ahead.items() if is_ahead)
