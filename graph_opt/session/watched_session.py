"""A session that waits no longer than it may for the servers of its cluster."""

from __future__ import annotations

from typing import Any, Callable

from graph_opt.compat import tf
from graph_opt.compat.sessions import SteppedSession
from graph_opt.runtime.error_text import without_takes
from graph_opt.session.recovery import note_lost
from graph_opt.session.server_watch import ServerWatch


class WatchedSession(SteppedSession):
    """A mixin for classes derived from `tf.Session`."""

    def watch_servers(self, config: Any) -> None:
        """Sets the limit to that of the session's extended config; called once."""
        self._watch = ServerWatch(config)

    def call(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a step, but waits no longer than it may for servers."""
        return self._watch.call(self, step, *arguments)

    def error_raised(self, error: tf.errors.OpError) -> tf.errors.OpError:
        """Removes the buffers that an error passed through from its message."""
        note_lost(self, error)
        return type(error)(None, None, without_takes(str(error.message)))

    def close(self) -> None:
        """Closes the session, with or without an answer of its servers."""
        self._watch.close(self, super().close)
