"""What a partial run of a session feeds: a private list of TensorFlow's tells."""

from __future__ import annotations

from typing import Any, List

from tensorflow.python.client import session as session_module


def feed_tensors(graph: Any, feeds: Any) -> List[Any]:
    """The tensors that a partial run feeds, given as tensors, names, or composites of tensors."""
    given = feeds if isinstance(feeds, (list, tuple)) else [] if feeds is None else [feeds]
    tensors: List[Any] = []
    for feed in given:
        for kind, _, _, expand in session_module._REGISTERED_EXPANSIONS:
            if isinstance(feed, kind):
                tensors.extend(graph.as_graph_element(part) for part in expand(feed))
                break
    return tensors
