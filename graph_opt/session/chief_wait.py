"""How long a worker waits for its chief to initialize or restore the variables.

TensorFlow's workers look from time to time until `max_wait_secs` have passed, two hours by default,
even if the chief has long ended and nobody will initialize anything.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, Optional

from graph_opt.compat import tf
from graph_opt.reporting.stderr import say
from graph_opt.session.recovery import ANSWER_SECONDS, NOTED_SECONDS, stall_seconds
from graph_opt.session.server_answers import NO_SUCH_TASK, silent_tasks

# TensorFlow looks every 30 s, and each look takes a server some milliseconds.
READY_SECONDS = 2.0
_FIRST_WORKER = "/job:worker/task:0"
_SILENT = (
    "the variables are not initialized, and {}, the chief, has not answered for {:.0f} s ({}): "
    "start it again, and it initializes them or restores the last checkpoint"
)


class ChiefWait:
    """Ends the wait for a chief that is gone, or says that it lasts.

    Which task is the chief is known from `TF_CONFIG` alone; without it, nothing happens.

    Args:
      config: The session's extended config; None for none.
      target: The session's target; without one, there is no cluster.
    """

    def __init__(self, config: Any, target: str) -> None:
        self._target = target
        self._limit = stall_seconds(config)
        self._chief = chief_of(os.environ) if target and config is not None else None
        self._silent_since: Optional[float] = None
        self._said = False

    def not_ready(self) -> None:
        """Called whenever the variables were found not to be initialized.

        Raises:
          tf.errors.DeadlineExceededError: The chief has not answered for `stall_seconds`.
        """
        if self._chief is None or self._said:
            return
        start = time.monotonic()
        silent = silent_tasks(self._target, [self._chief], ANSWER_SECONDS)
        if silent.get(self._chief) == NO_SUCH_TASK:
            # A script may have made the chief the first of its workers.
            self._chief = _FIRST_WORKER if self._chief != _FIRST_WORKER else None
            return
        if not silent:
            self._silent_since = None
            return
        if self._silent_since is None:
            self._silent_since = start
        seconds = time.monotonic() - self._silent_since
        if seconds < (self._limit or NOTED_SECONDS):
            return
        if self._limit:
            within = "stall_seconds is {:g}".format(self._limit)
            text = _SILENT.format(self._chief, seconds, within)
            raise tf.errors.DeadlineExceededError(None, None, text)
        say(_SILENT.format(self._chief, seconds, "no stall_seconds is set"))
        self._said = True


def chief_of(environment: Any) -> Optional[str]:
    """The chief's task, as `TF_CONFIG` has it; None if it has no cluster.

    Example:
      >>> chief_of({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}}'})
      '/job:worker/task:0'
    """
    try:
        cluster: Dict[str, Any] = json.loads(environment.get("TF_CONFIG", "{}")).get("cluster", {})
    except (AttributeError, ValueError):
        return None
    for job in ("chief", "master", "worker"):
        if cluster.get(job):
            return "/job:{}/task:0".format(job)
    return None
