"""Sessions for small graphs that run a few times, as those of ops and of patterns do."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf


def plain_session() -> Any:
    """A session of TensorFlow without Grappler, which takes longer than such a graph's steps."""
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(config=config)
