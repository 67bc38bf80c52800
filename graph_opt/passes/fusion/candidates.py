"""Lookups that a fused op could replace, with everything known about each."""

from __future__ import annotations

import dataclasses
import re
from typing import AbstractSet, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.config.options import GroupEmbeddingOptions
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.unused_lookups import unused_lookups
from graph_opt.rules import find_lookups
from graph_opt.rules.gradients.rows import RowGradient, Slices, row_gradients
from graph_opt.rules.lookup import (
    EMBEDDING_LOOKUP,
    FUSED_APIS,
    Lookup,
    Table,
)
from graph_opt.rules.lookup_inputs import DENSE, LookupInputs, lookup_inputs


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A lookup whose forward part can be fused.

    Attributes:
      lookup: The lookup.
      inputs: Its inputs.
      gradients: Its gradients as `tf.gradients` wrote them; none if nothing trains it.
      backward_refusal: Why its gradients and updates are left unchanged.
      row_shape: The shape of a row; `lookup` has the tables as matrices.
    """

    lookup: Lookup
    inputs: LookupInputs
    gradients: Tuple[RowGradient, ...] = ()
    backward_refusal: Optional[Refusal] = None
    row_shape: Tuple[int, ...] = (1,)

    @property
    def name(self) -> str:
        """Name of the tensor with the result, which is unique."""
        return str(self.lookup.output)

    @property
    def waits_for_rows(self) -> Tuple[str, ...]:
        """For what waits that needs new keys of a dynamic table to have rows."""
        return tuple(self.lookup.gathers) if self.is_dynamic else ()

    @property
    def tables(self) -> Tuple[str, ...]:
        """Names of the variables, shards in order."""
        return tuple(table.name for table in self.lookup.tables)

    @property
    def is_dynamic(self) -> bool:
        """Whether the ids are keys of a dynamic table."""
        return self.lookup.tables[0].is_dynamic


class Member(NamedTuple):
    """One lookup of an op, with the gradient that the op takes if it takes one."""

    candidate: Candidate
    gradient: Optional[RowGradient] = None

    @property
    def gradient_nodes(self) -> Tuple[str, ...]:
        """The nodes of the user's graph that compute the gradient."""
        return self.gradient.nodes if self.gradient else ()


@dataclasses.dataclass(frozen=True)
class CandidateSearch:
    """All lookups of a graph: those that can be fused, and the others with the reason.

    Attributes:
      candidates: The lookups that can be fused, in graph order.
      refused: The reasons for the others, by name of the lookup's output.
      lookups: All lookups, in graph order.
      refusals: What looks like a lookup but cannot be treated as one.
      fused: The lookups by ops of ours that the model itself calls, and that no other lookup can
        join. Only updates of their tables are left to fuse.
    """

    candidates: Tuple[Candidate, ...]
    refused: Dict[str, Refusal]
    lookups: Tuple[Lookup, ...]
    refusals: Tuple[Refusal, ...] = ()
    fused: Tuple[Lookup, ...] = ()


def find_candidates(
    view: GraphView, options: GroupEmbeddingOptions, fetched: AbstractSet[TensorRef] = frozenset()
) -> CandidateSearch:
    """Finds the lookups of a graph and decides which can be fused.

    Args:
      view: The graph.
      options: Which lookups to choose.
      fetched: Tensors that the session fetches.
    """
    candidates: List[Candidate] = []
    search = find_lookups(view)
    lookups = [lookup for lookup in search.lookups if not lookup.is_complete]
    fused = [lookup for lookup in search.lookups if lookup.is_complete]
    refused: Dict[str, Refusal] = {}
    unused = unused_lookups(view, lookups, fetched)
    for lookup in lookups:
        name = str(lookup.output)
        try:
            _require_wanted(lookup, options.lookups)
            candidate = candidate_of(view, lookup)
        except Refusal as refusal:
            refused[name] = refusal
            continue
        # If the loss is linear in the rows, the update needs their gradient but not the rows.
        if name in unused and not candidate.gradients:
            refused[name] = unused[name]
        else:
            candidates.append(candidate)
    # An op of ours would run all the same if it kept one of its lookups.
    kept = {
        one.output.node for one in lookups if one.api in FUSED_APIS and str(one.output) in refused
    }
    candidates = [one for one in candidates if one.lookup.output.node not in kept]
    return CandidateSearch(
        tuple(candidates), refused, tuple(lookups), search.refusals, tuple(fused)
    )


def candidate_of(view: GraphView, lookup: Lookup) -> Candidate:
    """A lookup that can be fused, with its gradients.

    Raises:
      Refusal: One op cannot replace the lookup; those of `lookup_inputs`.
    """
    inputs = lookup_inputs(view, lookup)
    row_shape = _row_shape(lookup.tables[0])
    matrices = dataclasses.replace(lookup, tables=tuple(map(_as_matrix, lookup.tables)))
    try:
        gradients = row_gradients(view, lookup)
    except Refusal as refusal:
        return Candidate(matrices, inputs, (), refusal, row_shape)
    return Candidate(matrices, inputs, gradients, None, row_shape)


def is_flattened(view: GraphView, candidate: Candidate) -> bool:
    """Whether ids that are not combined, or rows, have another number of dimensions than one."""
    if candidate.inputs.layout != DENSE:
        return False
    if len(candidate.row_shape) != 1 or not candidate.lookup.gathers:
        return len(candidate.row_shape) != 1
    shape = view.shape(candidate.inputs.ids)
    assert shape is not None
    return len(shape) > 1


def slices_member(table: Table, slices: Slices) -> Member:
    """IndexedSlices as the gradient of a plain lookup of their indices, which no node does.

    Args:
      table: The variable that they are a gradient of.
      slices: values [K] + shape of a row, and indices [K].
    """
    lookup = Lookup(
        api=EMBEDDING_LOOKUP,
        tables=(dataclasses.replace(_as_matrix(table), partitions=1),),
        ids=(slices.indices,),
        output=slices.values,
        gathers=(),
        nodes=(),
    )
    inputs = LookupInputs(DENSE, slices.indices, None, None, None, "sum", safe=False)
    gradient = RowGradient(slices.values, (slices,), unique=False, nodes=())
    return Member(Candidate(lookup, inputs, (gradient,), None, _row_shape(table)), gradient)


def _row_shape(table: Table) -> Tuple[int, ...]:
    assert table.row_shape is not None
    return tuple(size or 0 for size in table.row_shape)


def _as_matrix(table: Table) -> Table:
    """The table as our ops see it: [rows, width]."""
    assert table.shape is not None
    return dataclasses.replace(table, shape=(table.shape[0], int(np.prod(_row_shape(table)))))


def _require_wanted(lookup: Lookup, patterns: Sequence[str]) -> None:
    names = [lookup.name] + [table.name for table in lookup.tables]
    if patterns and not any(re.search(pattern, name) for pattern in patterns for name in names):
        raise Refusal(
            "lookup_not_chosen",
            at=lookup.output.node,
            need="a name that group_embedding_options.lookups matches",
            saw=lookup.name,
        )
