"""The stages that a step takes from where its feeds choose the input.

A stage starts once a step chooses it: an input that is never chosen is never read, and one that is
not initialized yet does not fail.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.sessions import share_session
from graph_opt.compat.stateful_ops import PLACEHOLDERS
from graph_opt.graph.operations import operations_behind

_MAX_KNOWN = 64
_Values = Tuple[Tuple[str, bytes], ...]


class ChosenStages:
    """Finds out which of its inputs a step chooses.

    Args:
      conditions: For each boolean that says whether a step chooses an input, the stages that fill
        its buffers.

    Attributes:
      all: The stages of all inputs.
    """

    def __init__(self, conditions: Mapping[Any, FrozenSet[str]]) -> None:
        self._conditions: List[Any] = list(conditions)
        self._stages: List[FrozenSet[str]] = list(conditions.values())
        behind = operations_behind(condition.op for condition in self._conditions)
        self._placeholders = {
            tensor.name for op in behind if op.type in PLACEHOLDERS for tensor in op.outputs
        }
        self._known: Dict[_Values, FrozenSet[str]] = {}
        self.all: FrozenSet[str] = frozenset().union(*self._stages)

    def of(self, session: Any, feeds: Sequence[Any], values: Sequence[Any]) -> FrozenSet[str]:
        """The stages of the inputs that a step chooses.

        Args:
          session: One of our sessions.
          feeds: The tensors that the step feeds.
          values: Their values.

        Returns:
          Their names; none if a placeholder is not fed, or the step chooses an unknown input. The
          step itself fails for that reason, too, at a node of its own.
        """
        fed = {
            tensor: value
            for tensor, value in zip(feeds, values)
            if tensor.name in self._placeholders
        }
        key = _key(fed)
        found = self._known.get(key) if key is not None else None
        if found is None:
            try:
                chosen = share_session(session).run(self._conditions, fed)
            except tf.errors.InvalidArgumentError:
                return frozenset()
            stages = [names for names, is_chosen in zip(self._stages, chosen) if is_chosen]
            found = frozenset().union(*stages)
            if key is not None and len(self._known) < _MAX_KNOWN:
                self._known[key] = found
        return found


def _key(fed: Mapping[Any, Any]) -> Optional[_Values]:
    """What identifies the values; None for those that are not worth remembering."""
    arrays = {tensor.name: np.asarray(value) for tensor, value in fed.items()}
    if any(array.size > 1 for array in arrays.values()):
        return None
    texts = {name: repr(array.tolist()).encode("utf-8") for name, array in arrays.items()}
    return tuple(sorted(texts.items()))
