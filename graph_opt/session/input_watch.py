"""What a session notes of its input: which works were trained, and where bad rows are."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Optional, Set

from graph_opt.compat import tf
from graph_opt.compat.sessions import share_session
from graph_opt.input.bad_rows import place_of_bad_row
from graph_opt.input.read_ahead import ReadAhead, readers_of
from graph_opt.reporting.stderr import say
from graph_opt.session.step import Step

_MOST_BAD_ROWS = 5
# So many times fewer steps than an equal share are told.
_FAR_BELOW = 2


class InputWatch:
    """Tells work queues what was trained, and users where a row is that could not be parsed.

    Args:
      session: The session.
    """

    def __init__(self, session: Any) -> None:
        self._session = weakref.ref(session)
        self._steps = 0  # Those that trained.
        self._begun: Optional[int] = None  # The global step when the first step had ended.
        self._has_told_share = False
        self._rows_told: Set[str] = set()
        self._lock = threading.Lock()

    def after_step(
        self,
        error: Optional[BaseException],
        step_of: Callable[..., Step],
        given: Any,
        partial: bool,
    ) -> None:
        """Notes the first training step, the end of the input, and errors of bad rows.

        Args:
          error: With which a step has ended; None if it ended well.
          step_of: Tells what the step was.
          given: Its fetches, targets and feeds.
          partial: Whether it was a part of a partial run.
        """
        session = self._session()
        if session is None:
            return
        if isinstance(error, tf.errors.InvalidArgumentError):
            self._tell_bad_row(session.graph, error.message)
        readers = readers_of(session.graph)
        if not readers or not step_of(*given, is_partial=partial).trains:
            return
        with self._lock:
            if error is None:
                self._steps += 1
                if self._steps == 1:
                    self._run([reader.note_first_step for reader in readers])
                    self._begun = self._run(tf.train.get_global_step(session.graph))
            elif isinstance(error, tf.errors.OutOfRangeError):
                for reader in readers:
                    self._ended(reader)

    def _tell_bad_row(self, graph: Any, message: str) -> None:
        """Scripts that go on after bad rows are told of a few: each is a search through files."""
        if len(self._rows_told) < _MOST_BAD_ROWS and message not in self._rows_told:
            place = place_of_bad_row(graph, message)
            if place:
                self._rows_told.add(message)
                say("the row that could not be parsed is {}".format(place))

    def _ended(self, reader: ReadAhead) -> None:
        if self._steps and reader.note_end is not None:
            self._run(reader.note_end)
        elif self._steps:
            self._tell_share(reader)
        elif self._run(reader.left) == 0:
            say(
                "no step was trained: work queue '{}' had no work left, since all were trained "
                "before; without its checkpoints, or with other works, it begins anew".format(
                    reader.name
                )
            )

    def _tell_share(self, reader: ReadAhead) -> None:
        """Says so where other workers have read most of a queue before this one could."""
        if self._begun is None or self._has_told_share:
            return
        step = tf.train.get_global_step(reader.left.graph)
        found = self._run([reader.left, reader.readers, step])
        if found is None:
            return
        left, workers, now = found
        steps = now - self._begun + 1
        if left == 0 and workers > 1 and self._steps * workers * _FAR_BELOW < steps:
            self._has_told_share = True
            say(
                "this worker trained {:,} of the last {:,} steps, of {} workers: work queue '{}' "
                "is empty, and the others have read what is left; smaller works, and smaller "
                "shuffle buffers, make shares equal".format(
                    self._steps, steps, workers, reader.name
                )
            )

    def _run(self, fetches: Any) -> Any:
        if fetches is None:
            return None
        try:
            return share_session(self._session()).run(fetches)
        except tf.errors.OpError:
            return None  # A server is lost, which the script's next step is told.
