"""How old the rows are that steps use although lookups read them ahead."""

from __future__ import annotations

from typing import Any, Dict

from graph_opt.compat.callables import raw_session
from graph_opt.reporting.staleness import staleness_of, staleness_text


class StalenessMetrics(Dict[str, Dict[str, Any]]):
    """Metrics of each table by its name; as a string, a table."""

    text = ""

    def __str__(self) -> str:
        return self.text


def staleness_metrics(session: Any) -> StalenessMetrics:
    """What sampled steps on a session's graph have told so far, by table.

    One training step in `staleness_sample_steps` is sampled (`async_embedding_options`).

    Args:
      session: An open session, monitored or not. Nothing is run.

    Returns:
      For each table whose lookups run ahead: `steps` sampled; `missed`, a list of how many rows had
      missed 0, 1, 2, ... updates of this process; `rows`, their number, and `mean_missed`;
      `relative_l2`, by how much what the lookups returned differed from what they would have
      returned in the step itself; and `uncounted`, why missed updates are not counted, or "".

    Raises:
      RuntimeError: The session is closed.

    Example:
      >>> graph_opt.staleness_metrics(session)["users"]["missed"]
      [1894, 97, 12]
    """
    tables = staleness_of(raw_session(session).graph)
    found = StalenessMetrics()
    for one in tables:
        found[one.table] = dict(one.to_dict(), rows=one.rows, mean_missed=one.mean_missed)
    found.text = staleness_text(tables)
    return found
