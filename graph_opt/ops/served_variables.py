"""Which shard of an exchange a variable stands for, where it is given for several."""

from __future__ import annotations

from typing import Dict, Hashable, List, Sequence


def places_of_variables(shards: Sequence[Hashable], served: Sequence[int]) -> List[int]:
    """The place of each variable, ascending: where it is served, or else its first one.

    Args:
      shards: The variable of each shard.
      served: Places of the shards that are on this rank.

    Example:
      >>> places_of_variables(["merged", "merged", "rows", "merged"], [1])
      [1, 2]
    """
    places: Dict[Hashable, int] = {}
    for place in [*served, *range(len(shards))]:
        places.setdefault(shards[place], place)
    return sorted(places.values())
