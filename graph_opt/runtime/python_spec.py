"""What a stage needs but a graph cannot hold: Python feeds and Python exception classes.

A table keyed by the graph, so that TensorFlow's objects are left unchanged. It holds names, never
tensors: a value that referred to the graph would keep it alive forever.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, MutableMapping, Tuple, Type

from graph_opt.runtime.feeds import FeedPlan


@dataclass(frozen=True)
class PythonSpec:
    """The part of one stage's description that a `StageSpec` cannot hold.

    Attributes:
      feeds: What to feed at each step; empty if the stage has no `feed_dict`.
      closed_types: Exception classes, other than TensorFlow's, that mean the end of input.
      ignored_types: Exception classes, other than TensorFlow's, that skip a batch.
    """

    feeds: FeedPlan = field(default_factory=FeedPlan)
    closed_types: Tuple[Type[BaseException], ...] = ()
    ignored_types: Tuple[Type[BaseException], ...] = ()


EMPTY = PythonSpec()
_specs: MutableMapping[Any, Dict[str, PythonSpec]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def remember(graph: Any, stage: str, spec: PythonSpec) -> None:
    """Keeps the spec of a stage for as long as the graph lives."""
    with _lock:
        _specs.setdefault(graph, {})[stage] = spec


def recall(graph: Any, stage: str) -> PythonSpec:
    """The spec of a stage; an empty one if `staged` did not make the stage in this process."""
    with _lock:
        return _specs.get(graph, {}).get(stage, EMPTY)
