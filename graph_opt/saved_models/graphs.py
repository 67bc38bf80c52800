"""Which graphs a SavedModel has: each has tags.

Of an export, one graph has the model's own tags, and one with fused lookups has one more.
"""

from __future__ import annotations

from typing import Any, Collection, Iterable, List, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.saved_models import SavedModel, parse_saved_model

FUSED = "graph_opt"
"""Tag of a graph with fused lookups, beside those of the graph that it was made from."""


def graph_tags(meta_graph: Any) -> List[str]:
    """The tags of a graph, in order."""
    return sorted(meta_graph.meta_info_def.tags)


def stock_tags(tags: Iterable[str]) -> List[str]:
    """Those of the graph that one with fused lookups was made from."""
    return [tag for tag in tags if tag != FUSED]


def graph_with(model: SavedModel, tags: Optional[Sequence[str]], path: str) -> Any:
    """The graph of a SavedModel that has these tags, or its only one.

    Raises:
      tf.errors.InvalidArgumentError: There is none, or there are several.
    """
    return model.meta_graphs[place_with([graph_tags(one) for one in model.meta_graphs], tags, path)]


def place_with(
    found: Sequence[Collection[str]], tags: Optional[Sequence[str]], path: str, preferred: str = ""
) -> int:
    """Which of several graphs is wanted.

    Args:
      found: The tags of each, in order.
      tags: Those of the wanted one; None for the only one.
      path: Of the SavedModel, for messages.
      preferred: A tag: without `tags`, the only one of several graphs that has it is taken.

    Raises:
      tf.errors.InvalidArgumentError: There is none, or there are several.
    """
    places = list(range(len(found)))
    if tags is not None:
        places = [place for place in places if list(found[place]) == sorted(tags)]
    elif len(places) > 1:
        with_it = [place for place in places if preferred in found[place]]
        places = with_it if len(with_it) == 1 else places
    if len(places) == 1:
        return places[0]
    raise _invalid(
        "{}: the SavedModel has {}: choose one by its tags (--tags)".format(
            path,
            "graphs tagged " + " / ".join(",".join(has) or "(none)" for has in found)
            if found
            else "no graph",
        )
    )


def graphs_of_export(folder: str) -> Tuple[Any, Any]:
    """The graph in TensorFlow's ops, and the one with fused lookups.

    Raises:
      tf.errors.InvalidArgumentError: It is not a folder that `graph-opt export` wrote.
    """
    by_tags = {tuple(graph_tags(one)): one for one in parse_saved_model(folder).meta_graphs}
    for tags, fused in by_tags.items():
        stock = by_tags.get(tuple(stock_tags(tags)))
        if FUSED in tags and stock is not None:
            return stock, fused
    raise _invalid(
        "{}: has no graph with fused lookups: give a folder that graph-opt export wrote".format(
            folder
        )
    )


def _invalid(text: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, text)
