"""What became of the sessions of a process."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Tuple

from graph_opt.reporting.report import Report
from graph_opt.reporting.summary import summary
from graph_opt.reporting.text import report_text

_STOCK_NAME = "Session"

TASK = "GRAPH_OPT_TASK"  # What `graph-opt cluster` calls the task that a process is, as a variable.


@dataclasses.dataclass(frozen=True)
class SessionReport:
    """One session that was asked to optimize, and later ones with the same outcome.

    Attributes:
      number: Position, from 1, in the order in which the process's sessions began to run.
      opened_as: Name of the session's class.
      graph: Number of its graph, from 1, in the order in which graphs appeared.
      report: What became of the graph.
      sessions: How many sessions on this graph had this outcome, such as those made on recovery.
    """

    number: int
    opened_as: str
    graph: int
    report: Report
    sessions: int = 1

    @property
    def title(self) -> str:
        """Which session it is, and its outcome."""
        named = "" if self.opened_as == _STOCK_NAME else " ({})".format(self.opened_as)
        return "session {}{}: {}".format(self.number, named, summary(self.report))

    def __str__(self) -> str:
        return report_text(self.report, self.title)

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        return {
            "number": self.number,
            "opened_as": self.opened_as,
            "graph": self.graph,
            "sessions": self.sessions,
            "summary": summary(self.report),
            "report": self.report.to_dict(),
        }


@dataclasses.dataclass(frozen=True)
class ProcessReport:
    """All sessions of one process.

    Attributes:
      process: The process's id.
      sessions: Those that were asked to optimize, in the order in which they began to run.
      messages: What else was said in it, each message once.
      rank: Its rank, or that of the process that started it, if Horovod connects several.
      task: Its task, or that of the process that started it, such as `worker 1`; "" for none.
    """

    process: int
    sessions: Tuple[SessionReport, ...]
    messages: Tuple[str, ...]
    rank: Optional[int] = None
    task: str = ""

    def __str__(self) -> str:
        place = "" if self.rank is None else "rank {}, ".format(self.rank)
        place += self.task + ", " if self.task else ""
        title = "{}process {}: {}".format(place, self.process, _sessions(len(self.sessions)))
        texts = [str(session) for session in self.sessions]
        messages = "\n".join("message: " + message for message in self.messages)
        return "\n\n".join(part for part in (title, *texts, messages) if part)

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        fields: Dict[str, Any] = {
            "process": self.process,
            "sessions": [session.to_dict() for session in self.sessions],
            "messages": list(self.messages),
        }
        if self.rank is not None:
            fields["rank"] = self.rank
        if self.task:
            fields["task"] = self.task
        return fields


def _sessions(count: int) -> str:
    if count == 0:
        return "no session was asked to optimize anything"
    return "{} that {} asked to optimize".format(
        "1 session" if count == 1 else "{} sessions".format(count), "was" if count == 1 else "were"
    )
