"""Who waited for whom: the numbers of each stage's buffer."""

from __future__ import annotations

from typing import Any, Dict

from graph_opt.compat.callables import raw_session
from graph_opt.ops.tensor_buffer import METRIC_NAMES
from graph_opt.reporting.read_again import read_again_by_stage
from graph_opt.runtime import claims
from graph_opt.runtime.stages import stages_of


def buffer_metrics(session: Any) -> Dict[str, Dict[str, int]]:
    """Metrics of every stage of a session, by stage name, upstream first.

    Args:
      session: An open session, monitored or not. Only the metrics are run.

    Returns:
      For each stage the values of `graph_opt.ops.tensor_buffer.METRIC_NAMES` (times in
      microseconds, sizes in bytes, all counted since the buffer was created) and, once a runner
      fills it, `steps` (batches put by its threads), `ignored` (batches skipped by
      `ignored_exception_types`) and `threads` (alive). With exact rows of servers, `read_again`:
      batches whose rows the graph's sessions have read again before a step took them.

    Raises:
      RuntimeError: the session is closed.

    Example:
      >>> graph_opt.metrics(session)["staged"]["take_wait_micros"]
      1234
    """
    inner = raw_session(session)
    stages = stages_of(inner.graph)
    values = inner.run({stage.name: stage.metrics for stage in stages}) if stages else {}
    found = {
        stage.name: {name: int(value) for name, value in zip(METRIC_NAMES, values[stage.name])}
        for stage in stages
    }
    for runner in claims.runners_of(inner):
        for name, counters in runner.counters().items():
            found[name].update(counters)
    for name, count in read_again_by_stage(inner.graph).items():
        found[name]["read_again"] = count
    return found
