"""Tells the work queues of a training which of their works were trained."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Optional

from graph_opt.compat import tf
from graph_opt.compat.sessions import share_session
from graph_opt.input.read_ahead import ReadAhead, readers_of
from graph_opt.reporting.stderr import say
from graph_opt.session.step import Step


class WorkQueues:
    """The work queues that a session's graph reads ahead.

    Args:
      session: The session.
    """

    def __init__(self, session: Any) -> None:
        self._session = weakref.ref(session)
        self._has_trained = False
        self._lock = threading.Lock()

    def after_step(
        self,
        error: Optional[BaseException],
        step_of: Callable[..., Step],
        given: Any,
        partial: bool,
    ) -> None:
        """Notes the first training step, and the end of the input.

        Args:
          error: With which a step has ended; None if it ended well.
          step_of: Tells what the step was.
          given: Its fetches, targets and feeds.
          partial: Whether it was a part of a partial run.
        """
        session = self._session()
        readers = readers_of(session.graph) if session is not None else ()
        if not readers or (error is None and self._has_trained):
            return
        if not step_of(*given, is_partial=partial).trains:
            return
        with self._lock:
            if error is None and not self._has_trained:
                self._run([reader.note_first_step for reader in readers])
                self._has_trained = True
            elif isinstance(error, tf.errors.OutOfRangeError):
                for reader in readers:
                    self._ended(reader)

    def _ended(self, reader: ReadAhead) -> None:
        if self._has_trained and reader.note_end is not None:
            self._run(reader.note_end)
        elif not self._has_trained and self._run(reader.left) == 0:
            say(
                "no step was trained: work queue '{}' had no work left, since all were trained "
                "before; without its checkpoints, or with other works, it begins anew".format(
                    reader.name
                )
            )

    def _run(self, fetches: Any) -> Any:
        try:
            return share_session(self._session()).run(fetches)
        except tf.errors.OpError:
            return None  # A server is lost, which the script's next step is told.
