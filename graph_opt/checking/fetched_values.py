"""What is recorded of the results of a step."""

from __future__ import annotations

from typing import Any, Iterator, Sequence, Tuple

import numpy as np

from graph_opt.checking.records import Value, value_of
from graph_opt.compat import tf

SUMMARY = "summary "
"""What the names of numbers in summaries begin with."""


def fetched_values(names: Sequence[str], types: Sequence[str], results: Any) -> Tuple[Value, ...]:
    """The results of a step.

    Args:
      names: Of the fetched tensors.
      types: Of the operations whose outputs they are.
      results: Their values, or a structure of them, and of None for operations.
    """
    flat = [value for value in tf.nest.flatten(results) if value is not None]
    if len(flat) != len(names):  # A compiled step returns each as often as it was asked for.
        names = ["result {}".format(place + 1) for place in range(len(flat))]
        types = [""] * len(flat)
    values = zip(names, types, flat)
    return tuple(one for given in values for one in _values(*given))


def _values(name: str, type_: str, value: Any) -> Iterator[Value]:
    if not type_.endswith("Summary") or not isinstance(value, (bytes, np.bytes_)):
        yield value_of(name, value)
        return
    for part in tf.Summary.FromString(value).value:
        if part.WhichOneof("value") == "simple_value":
            yield value_of(SUMMARY + part.tag, np.float32(part.simple_value))
