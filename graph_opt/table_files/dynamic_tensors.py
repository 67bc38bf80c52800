"""What the tensors of dynamic tables, and increments of others, are called: as DeepRec has them."""

from __future__ import annotations

import re
from typing import Iterable, List, Set

KEYS = "-keys"
VALUES = "-values"
VERSIONS = "-versions"
FREQS = "-freqs"
FILTERED = "_filtered"
OFFSETS = "-partition_offset"
FILTER_OFFSETS = "-partition_filter_offset"
DEFAULT_VALUES = "-default_values"
BUCKETS = 1000
TRAINED_KEYS, TRAINED_VALUES = "-sparse_incr_keys", "-sparse_incr_values"
"""What DeepRec's increments have of a variable of which only rows are trained."""

_SUFFIX = (
    "-(keys|values|versions|freqs|keys_filtered|versions_filtered|freqs_filtered|keys_removed|"
    r"partition_offset|partition_filter_offset|default_values)\Z"
)
_PART = re.compile(r"/part_(?:[0-9]+|\*)\Z")


def tables_in(tensors: Iterable[str]) -> List[str]:
    """Names of all dynamic tables of a checkpoint, without those of their parts and slots."""
    every = {name[: -len(KEYS)] for name in tensors if name.endswith(KEYS)}
    found: Set[str] = set()
    for name in sorted(every):
        above = [name[:place] for place, letter in enumerate(name) if letter == "/"]
        if not every.intersection(above):
            found.add(_PART.sub("", name))
    return sorted(found)


def parts_of(name: str, tensors: Iterable[str]) -> List[str]:
    """What the parts of a dynamic table are called; none if there is no such table.

    Args:
      name: Of the table, or that of its parts with a `*`.
      tensors: Names of all tensors of the checkpoint.
    """
    known = set(tensors)
    name = name[: -len("/part_*")] if name.endswith("/part_*") else name
    if name + KEYS in known:
        return [name]
    part = re.compile("({}/part_[0-9]+){}".format(re.escape(name), KEYS))
    matches = [part.fullmatch(tensor) for tensor in known]
    return sorted((one[1] for one in matches if one is not None), key=number_of_part)


def number_of_part(name: str) -> int:
    """Which part a name is of; -1 if of a whole table."""
    found = re.search(r"/part_([0-9]+)\Z", name)
    return -1 if found is None else int(found[1])


def tensors_of(name: str, tensors: Iterable[str]) -> List[str]:
    """Names of all tensors of a dynamic table, its parts and its slots."""
    pattern = re.compile(re.escape(name) + "(/part_[0-9]+)?(/[^/]+)?" + _SUFFIX)
    return sorted(tensor for tensor in tensors if pattern.match(tensor))
