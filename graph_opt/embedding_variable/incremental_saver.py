"""DeepRec's `tensorflow.python.training.incremental_saver`."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.dynamic.incremental import IncrementalSaver, incremental_saver_of

__all__ = ["IncrementalSaver", "_get_incremental_saver"]


def _get_incremental_saver(incremental_save_restore: bool, saver: Any) -> Optional[Any]:
    """The incremental saver of a saver; None if it is not wanted.

    Example:
      >>> incremental = _get_incremental_saver(True, saver)
      >>> incremental.incremental_save(session, "model/.incremental_checkpoint/incr", global_step=9)
    """
    return incremental_saver_of(saver) if incremental_save_restore else None
