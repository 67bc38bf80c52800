"""A session that waits no longer than it may for the servers of its cluster."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.left_behind import LeftBehind
from graph_opt.compat.sessions import SteppedSession, session_config
from graph_opt.runtime.error_text import without_takes
from graph_opt.session.recovery import note_lost
from graph_opt.session.server_answers import open_session
from graph_opt.session.server_watch import ServerWatch


class WatchedSession(SteppedSession):
    """A mixin for classes derived from `tf.Session`."""

    def watch_servers(self, config: Any, on_lost: Callable[[Any], Any]) -> None:
        """Sets how long calls wait for servers; called once.

        Args:
          config: The session's extended config, which has the limit; None for none.
          on_lost: Called with the session when its servers have not answered for so long.
        """
        self._watch = ServerWatch(config)
        self._on_lost = on_lost

    def call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a step, but waits no longer than it may for servers."""
        try:
            return self._watch.call(self, step, *arguments)
        except LeftBehind:
            self._on_lost(self)
            raise

    def within_limit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls what may wait for servers outside of a step.

        Args:
          function: What is called.
          *arguments: Its arguments.

        Raises:
          tf.errors.DeadlineExceededError: A server has not answered for `stall_seconds`.
        """
        try:
            return self.call(function, *arguments)
        except LeftBehind as ended:
            error = ended.error
        raise error

    def make_callable(
        self,
        fetches: Any,
        feed_list: Optional[Sequence[Any]] = None,
        accept_options: bool = False,
    ) -> Callable[..., Any]:
        """Like `tf.Session.make_callable`; what it makes waits no longer for servers than `run`."""
        arguments = fetches, feed_list, accept_options
        made: Callable[..., Any] = self.within_limit(super().make_callable, *arguments)
        if feed_list is not None:
            return made  # It calls `run`.

        def run(**options: Any) -> Any:
            return self.within_limit(functools.partial(made, **options))

        return run

    def list_devices(self) -> List[Any]:
        """Like `tf.Session.list_devices`, which would stop all threads while servers are silent."""
        session: Any = self
        if session.sess_str:
            target = session.sess_str.decode("utf-8")
            self.within_limit(open_session, target, session_config(session))
        base: Any = super()
        devices: List[Any] = base.list_devices()
        return devices

    def error_raised(self, error: tf.errors.OpError) -> tf.errors.OpError:
        """Removes the buffers that an error passed through from its message."""
        note_lost(self, error)
        return type(error)(None, None, without_takes(str(error.message)))

    def close(self) -> None:
        """Closes the session, with or without an answer of its servers."""
        self._watch.close(self, super().close)
