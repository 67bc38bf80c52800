"""`safe_embedding_lookup_sparse`: invalid ids are dropped and bags without ids filled.

    indices, dense_shape -> SparseReshape(.., [prod(all but last), last])
    values -> Identity -> prune -> [prune] -> SparseFillEmptyRows(.., default) -> combined
    weights            -> prune -> [prune] -> SparseFillEmptyRows(.., 1)

    prune     Gather(x, Reshape(Where(keep), [-1]))
              keep = values >= 0, with weights: and all true
              then, with weights and unless the combiner is a sum: keep = weights > 0
    combined  -> [Select(Tile(Reshape(which rows were empty, [-1, 1]), [1, D]), 0, combined)]
              -> Reshape to dense_shape[:-1] + [D]

Without a Select, the default is the id of a row, which bags without ids become.
"""

from __future__ import annotations

from typing import List, Optional, Sequence

import numpy as np

from graph_opt.graph.view import TensorRef
from graph_opt.rules.lookups.embedding_lookup_sparse import (
    COMBINERS,
    gathered,
    unweighted_rows,
    weighted_rows,
)
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import (
    Anywhere,
    Op,
    Pattern,
    constant,
    constant_of,
    integer,
    one_of,
    op,
    optional,
    tensor,
    through,
)
from graph_opt.rules.match.structure import integer_of
from graph_opt.rules.op_names import SELECTS

NO_DEFAULT = -1
_NO_MASKS = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}


def _safe(weighted: bool, combiners: Sequence[str] = COMBINERS) -> Pattern:
    indices, values, dense_shape = tensor("indices"), tensor("ids"), tensor("dense_shape")
    flat = op("SparseReshape", indices, dense_shape, _rows_and_last(dense_shape))
    ids, weights = op("Identity", values), tensor("weights")
    keep: List[Pattern] = [op("GreaterEqual", ids, constant(0))]
    if weighted:
        keep = [op("LogicalAnd", keep[0], _trues(weights))]
        if "sum" not in combiners:
            keep.append(op("Greater", _pruned(weights, keep), constant(0)))
    filled = op(
        "SparseFillEmptyRows",
        _pruned(flat, keep),
        _pruned(ids, keep),
        _flat_shape(flat),
        _Default(),
    )
    bags = _first_column(filled)
    if not weighted:
        return _result(unweighted_rows(filled[1], bags), filled[2], dense_shape)
    of_each = op(
        "SparseFillEmptyRows",
        _pruned(flat, keep),
        _pruned(weights, keep),
        _flat_shape(flat),
        constant(1),
    )
    combined = weighted_rows(filled[1], bags, optional("Cast", of_each[1]), combiners)
    return _result(combined, filled[2], dense_shape)


def _flat_shape(flat: Op) -> Pattern:
    return through("Identity", flat[1])


def _pruned(data: Pattern, keep: Sequence[Pattern]) -> Pattern:
    """The rows of a tensor that remain after applying each condition in turn."""
    for condition in keep:
        data = gathered(data, op("Reshape", op("Where", condition), constant([-1])))
    return data


def _trues(weights: Pattern) -> Pattern:
    """True for each weight."""
    shape = one_of(op("Shape", weights), constant_of(lambda value: True, "the weights' shape"))
    all_true = constant_of(lambda value: bool(np.all(value)), "true")
    return one_of(op("Fill", shape, constant(True)), all_true)


def _rows_and_last(dense_shape: Pattern) -> Pattern:
    """[prod(dense_shape[:-1]), dense_shape[-1]]."""
    rows = op("Prod", _all_but_last(dense_shape), constant([0]))
    last = gathered(dense_shape, _RankLessOne(dense_shape))
    return optional("Cast", op("Pack", rows, last))


def _all_but_last(dense_shape: Pattern) -> Pattern:
    source = one_of(dense_shape, op("Cast", dense_shape))  # The given one may be a Cast, too.
    return op("Slice", source, constant([0]), _RankLessOne(dense_shape))


def _first_column(filled: Pattern) -> Pattern:
    """filled[:, 0]: the row of each id."""
    masks = dict(_NO_MASKS, begin_mask=1, end_mask=1, shrink_axis_mask=2)
    return op("StridedSlice", filled, constant([0, 0]), constant([0, 1]), constant([1, 1]), **masks)


def _result(combined: Pattern, empty: Pattern, dense_shape: Pattern) -> Pattern:
    zeros = one_of(op("ZerosLike", combined), constant_of(lambda value: not np.any(value), "zeros"))
    column = op("Reshape", empty, constant([-1, 1]))
    select = op(SELECTS, op("Tile", column, _once_each_row(combined)), zeros, combined)
    zeroed = select.gives(default_id=NO_DEFAULT)
    rows = one_of(zeroed, combined)
    shape = op("ConcatV2", _all_but_last(dense_shape), _width_of(rows), constant(0))
    flat = zeroed.where(_has_rank_two, "ids of two dimensions")
    return (
        one_of(op("Reshape", rows, shape), flat)
        .where(_has_width, "rows as wide as the table's")
        .where(_has_default, "a constant row of the table for rows without ids")
    )


def _width_of(rows: Pattern) -> Pattern:
    """The shape of rows [B, D] without its first entry."""
    static = constant_of(lambda value: value.shape == (2,), "[B, D]").where(_notes_width, "")
    return op("Slice", one_of(op("Shape", rows), static), constant([1]), constant([-1]))


def _once_each_row(combined: Pattern) -> Pattern:
    """[1, D]."""
    bounds = [constant([entry]) for entry in (1, 2, 1)]
    entry = op("StridedSlice", op("Shape", combined), *bounds, shrink_axis_mask=1, **_NO_MASKS)
    static = constant_of(lambda value: value.size == 1, "a width").where(_notes_width, "")
    both = constant_of(lambda value: value.shape == (2,) and value[0] == 1, "[1, D]")
    return one_of(op("Pack", constant(1), one_of(entry, static)), both.where(_notes_width, ""))


class _RankLessOne(Anywhere):
    """The number of entries of a vector, minus one."""

    def __init__(self, vector: Pattern) -> None:
        computed = op("Sub", op("Size", vector), integer(1))
        self._computed = through(("Pack", "ExpandDims", "Reshape"), computed)
        self._vector = vector

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        number = integer_of(match.view, tensor)
        if number is None:
            return self._computed.match(match, tensor)
        match.note(match.facts, "rank", number + 1)
        return match.facts["rank"] == number + 1 or match.mismatch(tensor, "the rank less one")


class _Default(Anywhere):
    """What fills bags without ids."""

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        match.note(match.facts, "filler", integer_of(match.view, tensor))
        return True


def _has_default(match: Match, _: TensorRef) -> Optional[bool]:
    filler = match.facts["filler"]
    if match.facts.get("default_id") == NO_DEFAULT:
        return filler == 0
    match.note(match.facts, "default_id", filler)
    return True if filler is not None and filler >= 0 else None


def _has_rank_two(match: Match, _: TensorRef) -> Optional[bool]:
    rank = _rank(match)
    return None if rank is None else rank == 2


def _rank(match: Match) -> Optional[int]:
    entries = match.view.shape(match.tensors["dense_shape"])
    known = entries[0] if entries else None
    return match.facts.get("rank", known)


def _notes_width(match: Match, tensor: TensorRef) -> bool:
    value = match.view.constant(tensor)
    assert value is not None
    match.note(match.facts, ("width", tensor), int(value.reshape(-1)[-1]))
    return True


def _has_width(match: Match, _: TensorRef) -> Optional[bool]:
    noted = {fact for key, fact in match.facts.items() if isinstance(key, tuple)}
    shapes = {table.shape for table in match.tables.values()}
    widths = {shape[-1] if shape else None for shape in shapes}
    if not noted:
        return True
    return None if None in widths else noted == widths


SAFE: Pattern = one_of(
    _safe(weighted=False),
    _safe(weighted=True, combiners=["sum"]),
    _safe(weighted=True, combiners=["mean", "sqrtn"]),
)
