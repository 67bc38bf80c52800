"""What a stage needs and a graph cannot hold: Python feeds and Python exception classes.

A side table keyed by the graph, so that no mark is left on TensorFlow's objects. It holds names
and never tensors: a value that led back to the graph would keep the graph alive for ever.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, MutableMapping, Set, Tuple, Type

from graph_opt.runtime.feeds import FeedPlan


@dataclass(frozen=True)
class PythonSpec:
    """What a `StageSpec` cannot say of one stage.

    Attributes:
      feeds: What to feed at each step; empty where the stage has no `feed_dict`.
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
    """Keeps a stage's for as long as the graph lives."""
    with _lock:
        _specs.setdefault(graph, {})[stage] = spec


def recall(graph: Any, stage: str) -> PythonSpec:
    """That of a stage; an empty one if `staged` did not make the stage in this process."""
    with _lock:
        return _specs.get(graph, {}).get(stage, EMPTY)


def fed_placeholders(graph: Any) -> Set[str]:
    """Names of the tensors that some stage's `feed_dict` feeds, such as 'images:0'."""
    with _lock:
        stages = list(_specs.get(graph, {}).values())
    return {name for spec in stages for name in spec.feeds.fed}
