"""Ops of which each row of the result comes from the same row of their inputs.

Most rules are those of micro-batches, which ask the same of an op: that the rows of a part can be
computed apart from all others. Here the part is the first row. Sums over the batch and rows of a
constant, which micro-batches can divide, are refused.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Optional

from graph_opt.passes.micro_batches import elementwise, layout, products, reductions
from graph_opt.passes.micro_batches.call import COPY, WHOLE, Call
from graph_opt.passes.micro_batches.elementwise import Rule
from graph_opt.passes.micro_batches.shape_numbers import NotKnown, strided_places
from graph_opt.passes.micro_batches.values import Value

_OF_STRINGS: FrozenSet[str] = frozenset(
    ["Bucketize", "RegexReplace", "StaticRegexReplace", "StringLower", "StringStrip", "StringUpper"]
)
OF_ENTRIES: FrozenSet[str] = elementwise.ELEMENTWISE | _OF_STRINGS
"""Ops that compute each element of a list of ids from the same element."""
FIRST_ROW_LAYER = "FirstRowLayer"
"""The op that reads the first row of tensors whose rows are all the same."""
LAYERS_AT_PLACES = "LayersAtPlaces"
"""The op that computes layers at each place of each row."""
FINDS: FrozenSet[str] = frozenset(["LookupTableFind", "LookupTableFindV2"])
"""Ops that look up each element of a tensor in a hash table."""


def rows_of_table(call: Call) -> List[Value]:
    """`ResourceGather`: rows of a variable, at the places that each row has."""
    if call.integer("batch_dims"):
        raise call.refusal("batch_dims")
    call.share(0)
    return [Value(rows=call.rows_along(1))]


def found(call: Call) -> List[Value]:
    """What a hash table has for each element."""
    call.require_shared([0, 2])
    return [Value(rows=call.rows_along(1))]


def layers_at_places(call: Call) -> List[Value]:
    """Each row by itself, with the same weights."""
    call.require_shared(range(1, len(call.values)))
    return [Value(rows=call.rows_along(0))]


_RULES: Dict[str, Rule] = {
    **elementwise.RULES,
    **reductions.RULES,
    **products.RULES,
    **layout.RULES,
    **{op: elementwise.elementwise for op in _OF_STRINGS},
    **{op: found for op in FINDS},
    "ResourceGather": rows_of_table,
    LAYERS_AT_PLACES: layers_at_places,
}
# Their op has state, which it only reads.
_READERS = FINDS | frozenset(["ResourceGather"])


_FIRST = ((slice(0, 1, 1),), (slice(None, 1, 1),), (0,))


def first_of(call: Call) -> Optional[List[Value]]:
    """What takes the first row of rows that are all the same: one value, as any other row gives.

    Returns:
      None for all else.
    """
    if call.op == FIRST_ROW_LAYER:
        return [Value(), Value()]
    rows = call.rows(0) if call.op == "StridedSlice" else None
    if rows is None or rows.axis or rows.times != 1:
        return None
    bounds = [call.numbers(slot) for slot in (1, 2, 3)]
    try:
        places = strided_places(bounds, lambda key: call.view.attribute(call.name, key))
    except NotKnown:
        return None
    return [Value()] if places[:1] in _FIRST else None


def has_rule(op: str) -> bool:
    """Whether rows of an op's result may come from the same rows of its inputs."""
    return op in _RULES


def only_reads(op: str) -> bool:
    """Whether an op with state only reads it."""
    return op in _READERS


def rows_of(call: Call) -> List[Value]:
    """Where the results of a node have the rows of its inputs.

    Raises:
      Refusal: They are computed from each other, or nothing is known of the op.
    """
    rule = _RULES.get(call.op)
    if rule is None:
        raise call.refusal()
    outputs = rule(call)
    is_plain = all(use.kind in (COPY, WHOLE) for use in call.uses.values())
    if not is_plain or any(value.total for value in outputs):
        raise call.refusal("{} over the rows of the batch".format(call.op))
    return outputs
