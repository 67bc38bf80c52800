"""Requests as an export with repeated inputs takes them: of one user, and of many items."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

import numpy as np

from graph_opt.compat import tf

REPEATED = "graph_opt_repeated_inputs"
"""The collection with the names of inputs that are the same in all rows of a request."""


def repeated_inputs(meta_graph: Any) -> List[str]:
    """The inputs, or features of examples, that an exported graph takes from the first row."""
    if REPEATED not in meta_graph.collection_def:
        return []
    return [name.decode("utf-8") for name in meta_graph.collection_def[REPEATED].bytes_list.value]


def note_repeated_inputs(meta_graph: Any, names: Sequence[str]) -> None:
    """Has a MetaGraphDef tell them."""
    told = [name.encode("utf-8") for name in names]
    meta_graph.collection_def[REPEATED].bytes_list.value.extend(told)


def with_first_row(request: Mapping[str, np.ndarray], names: Sequence[str]) -> Any:
    """A request in which these inputs have the values of their first row in all rows.

    Names that are no inputs are features of the serialized examples among them.
    """
    changed = dict(request)
    features = [name for name in names if name not in request]
    for name, array in request.items():
        if name in names:
            changed[name] = np.repeat(array[:1], len(array), 0)
        elif features and array.dtype == object and array.ndim == 1:
            changed[name] = _examples(array, features)
    return changed


def _examples(serialized: np.ndarray, names: Sequence[str]) -> np.ndarray:
    rows = [tf.train.Example.FromString(row) for row in serialized]
    for row in rows[1:]:
        for name in names:
            row.features.feature[name].CopyFrom(rows[0].features.feature[name])
    return np.array([row.SerializeToString() for row in rows], object)
