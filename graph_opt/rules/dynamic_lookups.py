"""What one op for many lookups must know of those of dynamic tables.

    keys, counts, defaults, insert -> DynamicTableLookup(table)
    Unique(ids):0                                            keys     of combined rows
    UniqueWithCounts(ids):2                                  counts   how often each occurs, or none
    [0]                                                      defaults none: rows by the table's rule
    a constant, or a boolean tensor                          insert   whether new keys get rows

An op for many lookups counts each occurrence of a key, and gives new keys the rows of their table's
rule. Lookups that are told otherwise by a script stay as they are.
"""

from __future__ import annotations

from typing import List, Optional, Union

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.op_names import DYNAMIC_LOOKUP, UNIQUES

Insert = Union[TensorRef, bool]

_CODE = "lookup_by_key_differs"
_KEYS, _COUNTS, _DEFAULTS, _INSERT = 1, 2, 3, 4
_OF_UNIQUE, _OF_COUNTS = 0, 2


def insert_of(view: GraphView, lookup: Lookup) -> Optional[Insert]:
    """Whether the lookup of a dynamic table makes rows for new keys; None for a static table.

    Raises:
      Refusal: lookup_by_key_differs.
    """
    if not any(table.is_dynamic for table in lookup.tables):
        return None
    if lookup.default_id >= 0:
        raise Refusal(
            _CODE,
            at=lookup.output.node,
            need="zeros for bags without ids",
            saw="the row of key {}".format(lookup.default_id),
        )
    found: List[Insert] = []
    for gather in lookup.gathers:
        _require_key(view, gather)
        _require_rule_of_table(view, gather)
        _require_occurrences(view, gather)
        found.append(_value(view, view.inputs(gather)[_INSERT]))
    if len(set(found)) > 1:
        need = "parts of a table that all make rows for new keys, or none"
        raise Refusal(_CODE, at=lookup.gathers[0], need=need, saw="different ones")
    return found[0]


def keys_counted_twice(view: GraphView, gather: str) -> Refusal:
    """The refusal for a lookup that would run beside the op that does the same."""
    readers = [use.consumer for _, use in view.node_uses(gather)] or ["a fetch"]
    return Refusal(
        "keys_counted_twice",
        at=gather,
        need="rows that nothing reads once another op looks the keys up",
        saw="'{}', which still needs them".format(readers[-1]),
    )


def _require_key(view: GraphView, gather: str) -> None:
    """Refuses reads by number of a row, as exported graphs have them."""
    op = view.op(gather)
    if op != DYNAMIC_LOOKUP:
        need = "a lookup by key of a dynamic table"
        raise Refusal(_CODE, at=gather, need=need, saw="{} by number of a row".format(op))


def _require_rule_of_table(view: GraphView, gather: str) -> None:
    defaults = view.inputs(gather)[_DEFAULTS]
    if not _is_empty(view, defaults):
        need = "new rows by the rule of the table"
        raise Refusal(_CODE, at=gather, need=need, saw="default rows '{}'".format(defaults))


def _require_occurrences(view: GraphView, gather: str) -> None:
    """Refuses numbers of occurrences other than how often each key occurs in the lookup's ids."""
    keys, counts = view.inputs(gather)[_KEYS], view.inputs(gather)[_COUNTS]
    if _is_empty(view, counts):
        return
    keys, counts = _before_partition(view, keys), _before_partition(view, counts)
    makers = (keys.node, counts.node)
    counted = all(view.op(maker) in UNIQUES for maker in makers)
    if counted and (keys.index, counts.index) == (_OF_UNIQUE, _OF_COUNTS):
        if view.inputs(keys.node)[0] == view.inputs(counts.node)[0]:
            return
    need = "numbers of occurrences as they are in the lookup's ids"
    raise Refusal(_CODE, at=gather, need=need, saw="counts '{}'".format(counts))


def _before_partition(view: GraphView, tensor: TensorRef) -> TensorRef:
    """What a part of keys, or of their counts, was divided from."""
    if view.op(tensor.node) == "DynamicPartition":
        tensor = view.inputs(tensor.node)[0]
    while view.op(tensor.node) in ("Reshape", "Identity", "Cast"):
        tensor = view.inputs(tensor.node)[0]
    return tensor


def _is_empty(view: GraphView, tensor: TensorRef) -> bool:
    value = view.constant(tensor)
    return value is not None and value.size == 0


def _value(view: GraphView, insert: TensorRef) -> Insert:
    value = view.constant(insert)
    return insert if value is None else bool(value)
