"""How many batches had their rows read again before a step took them, and why."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Any, Dict, MutableMapping, Tuple

# By what FindLostRows returns.
_REASONS = {
    1: "after a step that failed",
    2: "after a table was assigned",
    3: "after a foreign step",
}

# By stage and lookup: a batch may have several lookups, whose rows are read one after another.
_Counts = Dict[Tuple[str, str], "Counter[int]"]
_counts: MutableMapping[Any, _Counts] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def note_read_again(graph: Any, stage: str, lookup: str, loss: int) -> None:
    """Counts a lookup's rows of one batch.

    Args:
      graph: Its `tf.Graph`.
      stage: The stage that the batch waits in.
      lookup: The node that looks rows up.
      loss: Why: what FindLostRows returned.
    """
    with _lock:
        of_graph = _counts.setdefault(graph, {})
        of_graph.setdefault((stage, lookup), Counter())[loss] += 1


def read_again_by_stage(graph: Any) -> Dict[str, int]:
    """How many batches there were, for stages of a graph that had some."""
    return {stage: sum(losses.values()) for stage, losses in _by_stage(graph).items()}


def read_again_text(graph: Any) -> str:
    """The same in one line, with the reasons; "" if there were none."""
    sums: Counter[int] = sum(_by_stage(graph).values(), Counter())
    count = sum(sums.values())
    if not count:
        return ""
    batches = "1 batch" if count == 1 else "{} batches".format(count)
    parts = ["{} {}".format(sums[loss], why) for loss, why in _REASONS.items() if sums[loss]]
    return "rows of {} were read again from servers: {}".format(batches, ", ".join(parts))


def _by_stage(graph: Any) -> Dict[str, Counter[int]]:
    stages: Dict[str, Counter[int]] = {}
    with _lock:
        for (stage, _), losses in _counts.get(graph, {}).items():
            stages[stage] = stages.get(stage, Counter()) | losses
    return stages
