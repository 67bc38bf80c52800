"""What the kernels should give, in float64, one plain step after another.

Each function also gives a magnitude: the same sum over absolute values, to which rounding errors
are in proportion.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Tuple

import numpy as np

from tools.gpu_check.numbers import Array, loaded
from tools.gpu_check.shapes import Group, Lookup, Table


@dataclasses.dataclass(frozen=True)
class Occurrences:
    """The ids of a lookup that count: bag, id and weight of each.

    Of an empty bag it is the default id, or the filled id with weight 0.
    """

    bags: Array
    ids: Array
    weights: Array
    divisors: Array  # [num_bags]; x / 0 is 0


def occurrences(lookup: Lookup) -> Occurrences:
    """Which ids count, and what each bag's sum is divided by."""
    counts = np.ones(len(lookup.ids), bool)
    weights = np.ones(len(lookup.ids)) if lookup.weights is None else lookup.weights.astype("f8")
    if lookup.safe:
        counts &= lookup.ids >= 0
        if lookup.weights is not None and lookup.combiner != "sum":
            counts &= weights > 0
    bags = lookup.bags[counts]
    ids = lookup.ids[counts].astype(np.int64)
    weights = weights[counts]
    filled = lookup.default_id if lookup.default_id >= 0 else lookup.filled_id
    if filled >= 0:
        empty = np.setdiff1d(np.arange(lookup.num_bags), bags)
        bags = np.concatenate([bags, empty])
        ids = np.concatenate([ids, np.full(len(empty), filled)])
        weights = np.concatenate([weights, np.full(len(empty), float(lookup.default_id >= 0))])
    return Occurrences(bags, ids, weights, _divisors(lookup, bags, weights))


def _divisors(lookup: Lookup, bags: Array, weights: Array) -> Array:
    divisors: Array = np.ones(lookup.num_bags)
    if lookup.combiner == "mean":
        divisors = np.bincount(bags, weights, lookup.num_bags)
    elif lookup.combiner == "sqrtn":
        divisors = np.sqrt(np.bincount(bags, weights**2, lookup.num_bags))
    return divisors


def places(table: Table) -> List[Tuple[int, int]]:
    """(shard, row) of each id of a table.

    Example:
        >>> places(Table((np.zeros([2, 4]), np.zeros([1, 4])), "float32", "mod"))
        [(0, 0), (1, 0), (0, 1)]
    """
    if table.partition == "div":
        return [(s, row) for s, shard in enumerate(table.shards) for row in range(len(shard))]
    return [(i % len(table.shards), i // len(table.shards)) for i in range(table.rows)]


def rows_by_id(table: Table) -> Array:
    """[rows + 1, width] in float64, in the order of ids; a row of zeros for ids it has not."""
    rows = np.zeros([table.rows + 1, table.width])
    for i, (shard, row) in enumerate(places(table)):
        rows[i] = loaded(table.shards[shard][row], table.dtype)
    return rows


def _rows_of(ids: Array, table: Table) -> Array:
    return np.where((ids >= 0) & (ids < table.rows), ids, table.rows)


def pooled(lookup: Lookup, table: Table) -> Tuple[Array, Array]:
    """[num_bags, width]: the pooled rows, and their magnitude."""
    found = occurrences(lookup)
    terms = rows_by_id(table)[_rows_of(found.ids, table)] * found.weights[:, None]
    total = np.zeros([lookup.num_bags, table.width])
    magnitude = np.zeros_like(total)
    np.add.at(total, found.bags, terms)
    np.add.at(magnitude, found.bags, np.abs(terms))
    by = _inverse(found.divisors)[:, None]
    return total * by, magnitude * np.abs(by)


def row_sums(group: Group, table: int, gradients: List[Array]) -> Dict[int, Tuple[Array, Array]]:
    """By id: the sum of a row's gradients and its magnitude; gradients are [num_bags, width]."""
    sums: Dict[int, Tuple[Array, Array]] = {}
    for lookup, gradient in zip(group.lookups, gradients):
        if lookup.table != table:
            continue
        found = occurrences(lookup)
        scale = _inverse(found.divisors)[found.bags] * found.weights
        terms = gradient[found.bags] * scale[:, None]
        inside = _rows_of(found.ids, group.tables[table]) < group.tables[table].rows
        ids, inverse = np.unique(found.ids[inside], return_inverse=True)
        total = np.zeros([len(ids), group.tables[table].width])
        magnitude = np.zeros_like(total)
        np.add.at(total, inverse, terms[inside])
        np.add.at(magnitude, inverse, np.abs(terms[inside]))
        for i, one in enumerate(ids.tolist()):
            before = sums.get(one, (0.0, 0.0))
            sums[one] = (before[0] + total[i], before[1] + magnitude[i])
    return sums


def _inverse(divisors: Array) -> Array:
    return np.divide(1.0, divisors, out=np.zeros(len(divisors)), where=divisors != 0)
