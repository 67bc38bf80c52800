"""What passes found and did, as data for people: nothing in graph_opt acts on it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, FrozenSet, Tuple

from graph_opt.reporting import text
from graph_opt.reporting.json_documents import json_document
from graph_opt.reporting.outcomes import (
    MOVED,
    DenseReader,
    FusedLookup,
    LookupOutcome,
    PackedTransfer,
    ServedTable,
    StageReport,
    TableOutcome,
)
from graph_opt.reporting.refreshed import TableRefresh
from graph_opt.reporting.staleness import TableStaleness

MICRO_BATCHES = "micro_batch_num: "
"""How lines begin that tell on which batches steps train. Sessions print them on their own."""


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcome of all passes on one graph.

    Attributes:
      lookups: Every lookup found.
      columns: Columns without a table (indicator, bucketized) that could run ahead.
      refusals: What was left alone and is not itself one of the lookups (functions, loops).
      stages: The prefetch stages that were made.
      regions: Number of nodes in `io`, `prefetch` and `main`; of a graph that is shown, also of
        those that no batch reaches (`none`) or that are kept for their names (`idle`).
      left_alone: Why nothing was tried, or not everything that was asked for.
      changes: What else passes changed, a line each.
      warnings: What else users should know.
      seconds: Time the passes took.
      fetches: Original tensor name to the take's tensor that carries it.
      hidden: Names of nodes whose values exist only in prefetch.
      protected_gathers: Gathers kept from being turned into whole-table reads.
      packed_transfers: What crosses between tasks as one tensor instead of many.
      not_packed: Weights and gradients of dense layers that travel alone: code, node, need and saw.
      not_pipelined: Updates that steps still wait for: code, node, need and saw.
      fused_lookups: Every lookup of the model, if lookups were to be fused.
      dense_readers: What reads whole tables whose update is deferred.
      replaced: Output of a fused lookup to the tensor that replaces it.
      whole_table_reads_removed: Gathers that TensorFlow would have turned into reads of whole
        tables if they had not been fused.
      tables: The tables that were sharded across ranks, and those that were meant to be.
      smart_stage: What runs ahead besides lookups; "" if nothing does.
      micro_batches: How batches are divided; "" if they are not.
      tuned: What is chosen for each stage that is tuned while it runs, and why, a line each.
      read_again: How many waiting batches had their rows read again, and why; "" if none had.
      staleness: How old the rows were that sampled steps have used so far.
      refreshed: How many rows were refreshed, as far as a session has read the counts.
      served: The tables of a graph with fused lookups that trains nothing.

    Example:
      >>> report = graph_opt.optimize_graph(tf.get_default_graph(), config)
      >>> [lookup.name for lookup in report.lookups if lookup.refusal]
      []
    """

    lookups: Tuple[LookupOutcome, ...] = ()
    columns: Tuple[LookupOutcome, ...] = ()
    refusals: Tuple[Dict[str, str], ...] = ()
    stages: Tuple[StageReport, ...] = ()
    regions: Dict[str, int] = dataclasses.field(default_factory=dict)
    left_alone: Tuple[str, ...] = ()
    changes: Tuple[str, ...] = ()
    warnings: Tuple[str, ...] = ()
    seconds: float = 0.0
    fetches: Dict[str, str] = dataclasses.field(default_factory=dict)
    hidden: FrozenSet[str] = frozenset()
    protected_gathers: Tuple[str, ...] = ()
    packed_transfers: Tuple[PackedTransfer, ...] = ()
    not_packed: Tuple[Dict[str, str], ...] = ()
    not_pipelined: Tuple[Dict[str, str], ...] = ()
    fused_lookups: Tuple[FusedLookup, ...] = ()
    dense_readers: Tuple[DenseReader, ...] = ()
    replaced: Dict[str, str] = dataclasses.field(default_factory=dict)
    whole_table_reads_removed: Tuple[str, ...] = ()
    tables: Tuple[TableOutcome, ...] = ()
    smart_stage: str = ""
    micro_batches: str = ""
    tuned: Tuple[str, ...] = ()
    read_again: str = ""
    staleness: Tuple[TableStaleness, ...] = ()
    refreshed: Tuple[TableRefresh, ...] = ()
    served: Tuple[ServedTable, ...] = ()

    @property
    def sharded(self) -> Tuple[TableOutcome, ...]:
        """The tables of which each rank has a part."""
        return tuple(table for table in self.tables if table.rule)

    @property
    def fused(self) -> Tuple[FusedLookup, ...]:
        """The lookups that are part of a fused op."""
        return tuple(lookup for lookup in self.fused_lookups if lookup.group)

    @property
    def moved(self) -> Tuple[LookupOutcome, ...]:
        """The lookups that run in prefetch."""
        return tuple(lookup for lookup in self.lookups if lookup.outcome == MOVED)

    def to_dict(self) -> Dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        plain = dataclasses.asdict(self)
        plain["hidden"] = sorted(self.hidden)
        for told in plain["staleness"]:
            if math.isinf(told["relative_l2"]):
                told["relative_l2"] = None  # JSON has no infinity.
        return plain

    def to_json(self) -> str:
        """The report as indented JSON."""
        return json_document("report", self.to_dict())

    def __str__(self) -> str:
        return text.brief_text(self)
