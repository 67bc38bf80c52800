"""How the wait for a call of TensorFlow ends that may never return."""

from __future__ import annotations

from graph_opt.compat import tf


class LeftBehind(Exception):
    """Ends the wait for a call that may never return.

    Args:
      error: What `run` raises.
    """

    def __init__(self, error: tf.errors.OpError) -> None:
        super().__init__(error.message)
        self.error = error
