"""Whether TensorFlow writes conditionals and loops as functions, for the length of a block."""

from __future__ import annotations

import contextlib
from typing import Iterator

from graph_opt.compat import tf


@contextlib.contextmanager
def control_flow_v2(enabled: bool) -> Iterator[None]:
    """Turns functions on or off, and at the end of the block what was before on again."""
    before = tf.control_flow_v2_enabled()
    _choose(enabled)
    try:
        yield
    finally:
        _choose(before)


def _choose(enabled: bool) -> None:
    if enabled:
        tf.enable_control_flow_v2()
    else:
        tf.disable_control_flow_v2()
