"""Finds the tensor that a graph trains on, where the paths of a page end."""

from __future__ import annotations

import re
from typing import Iterator, List

from graph_opt.graph.view import GraphView

_SEED = re.compile(r"(^|/)grad_ys_\d+$")
_GRADIENT_OF = re.compile(r"(?:^|/)gradients[^/]*/(.+?)_grad/")
_NAMED = re.compile(r"loss|cost|objective", re.IGNORECASE)
_NOT_FORWARD = re.compile(r"(^|/)(gradients[^/]*|save|report_uninitialized[^/]*)/|Summar")


def losses_of(view: GraphView) -> List[str]:
    """Names of the nodes that gradients start from; else of the last one that is called loss.

    `tf.gradients` starts from ones named `grad_ys_N`; what first reads them is named after the node
    whose gradient it is.
    """
    found = dict.fromkeys(
        name for seed in view.nodes if _SEED.search(seed) for name in _differentiated(view, seed)
    )
    if found:
        return list(found)
    named = [
        name
        for name in view.nodes
        if _NAMED.search(name.rpartition("/")[2]) and not _NOT_FORWARD.search(name)
    ]
    return named[-1:]


def _differentiated(view: GraphView, seed: str) -> Iterator[str]:
    for reader in view.readers(seed):
        match = _GRADIENT_OF.search(reader)
        if match is not None and match.group(1) in view:
            yield match.group(1)
