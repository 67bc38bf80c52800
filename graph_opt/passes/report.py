"""What a pass saw and did, as data; the tools only print it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

MOVED = "moved"
LEFT = "left in main"
FUSED_PART = "fused"
STOCK_PART = "stock"
NO_PART = "none"


@dataclasses.dataclass(frozen=True)
class LookupOutcome:
    """One recognised lookup: where it is and what became of it.

    Attributes:
      name: Label for people, from the output's name.
      api: The TensorFlow call it stems from, such as `tf.nn.embedding_lookup_sparse`.
      tables: Names of the variables it reads.
      combiner: `sum`, `mean`, `sqrtn`, or None where nothing is combined.
      output: Name of the tensor with the result.
      device: Device of the table, '' where none is asked for.
      outcome: `moved` or `left in main`.
      stage: Name of the stage that computes it, '' if left.
      refusal: code, node, need and saw; None if moved.
    """

    name: str
    api: str
    tables: Tuple[str, ...]
    combiner: Optional[str]
    output: str
    device: str
    outcome: str
    stage: str = ""
    refusal: Optional[Dict[str, str]] = None


@dataclasses.dataclass(frozen=True)
class FusedLookup:
    """One lookup of the model and which of its parts became part of an op for many.

    Attributes:
      name: Label for people.
      api: The TensorFlow call it stems from.
      tables: Names of the variables it reads.
      combiner: `sum`, `mean`, `sqrtn`, or None where nothing is combined.
      output: Name of the tensor with the result in the model.
      group: Node that looks it up now, '' where the lookup stays as it is.
      gradient: `fused`, `stock`, or `none` where nothing trains it.
      update: The same for the optimizer's update of its tables.
      refusals: Why parts stay: code, node, need and saw.
    """

    name: str
    api: str
    tables: Tuple[str, ...]
    combiner: Optional[str]
    output: str
    group: str = ""
    gradient: str = NO_PART
    update: str = NO_PART
    refusals: Tuple[Dict[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class BoundaryTensor:
    """A tensor that crosses from prefetch to main each step.

    Attributes:
      name: Its name in the user's graph.
      take: The output of the stage's take that carries it.
      dtype: TensorFlow's dtype name.
      shape: Static shape, None for an unknown dimension; None for unknown rank.
      bytes: Bytes a step; None where a dimension is unknown.
      bytes_per_row: Bytes for each unit of the first dimension when only that one is unknown.
    """

    name: str
    take: str
    dtype: str
    shape: Optional[Tuple[Optional[int], ...]]
    bytes: Optional[int]
    bytes_per_row: Optional[int]


@dataclasses.dataclass(frozen=True)
class StageReport:
    """One prefetch stage.

    Attributes:
      name: Name of the stage and of its buffer.
      io_source: The node that hands out its batches.
      io_stage: Stage whose buffer it takes from, '' for a buffer that no stage of ours fills.
      inferred: Whether the pass put that IO stage there.
      nodes: Number of nodes in the prefetch region.
      boundary: What crosses.
    """

    name: str
    io_source: str
    io_stage: str
    inferred: bool
    nodes: int
    boundary: Tuple[BoundaryTensor, ...]


@dataclasses.dataclass(frozen=True)
class PackedTransfer:
    """Tensors that travel between two tasks as one.

    Attributes:
      source: Device that sends.
      target: Device that receives.
      dtype: TensorFlow's dtype name.
      tensors: How many tensors, and calls before.
    """

    source: str
    target: str
    dtype: str
    tensors: int


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcome of all passes on one graph.

    Attributes:
      lookups: Every lookup found.
      refusals: What was left alone without being a lookup of its own (functions, loops).
      stages: The prefetch stages made.
      regions: Number of nodes in `io`, `prefetch` and `main`.
      warnings: For people.
      seconds: Time the passes took.
      fetches: Original tensor name to the take's tensor that carries it.
      hidden: Names of nodes whose values exist in prefetch alone.
      protected_gathers: Gathers saved from being turned into whole-table reads.
      packed_transfers: What crosses between tasks as one tensor in place of many.
      fused_lookups: Every lookup that the model has, where lookups were to be fused.
      replaced: Output of a fused lookup to the tensor that stands for it.
      whole_table_reads_removed: Gathers that TensorFlow would have turned into reads of whole
        tables, and that are fused now.
    """

    lookups: Tuple[LookupOutcome, ...] = ()
    refusals: Tuple[Dict[str, str], ...] = ()
    stages: Tuple[StageReport, ...] = ()
    regions: Dict[str, int] = dataclasses.field(default_factory=dict)
    warnings: Tuple[str, ...] = ()
    seconds: float = 0.0
    fetches: Dict[str, str] = dataclasses.field(default_factory=dict)
    hidden: FrozenSet[str] = frozenset()
    protected_gathers: Tuple[str, ...] = ()
    packed_transfers: Tuple[PackedTransfer, ...] = ()
    fused_lookups: Tuple[FusedLookup, ...] = ()
    replaced: Dict[str, str] = dataclasses.field(default_factory=dict)
    whole_table_reads_removed: Tuple[str, ...] = ()

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
        return plain

    def to_json(self) -> str:
        """The report as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True)

    def __str__(self) -> str:
        lines = []
        if self.fused_lookups:
            lines.extend(_fusion_lines(self))
        if self.lookups or not self.fused_lookups:
            lines.append(
                "async embedding: {} of {} lookups moved, {} stages".format(
                    len(self.moved), len(self.lookups), len(self.stages)
                )
            )
        lines[0] = "{}, {:.2f} s".format(lines[0], self.seconds)
        for stage in self.stages:
            lines.extend(_stage_lines(stage))
        lines.extend(_transfer_lines(self))
        lines.extend(_left_lines(self))
        lines.extend("warning: " + warning for warning in self.warnings)
        return "\n".join(lines)


def _fusion_lines(report: Report) -> List[str]:
    groups = {lookup.group for lookup in report.fused}
    lines = [
        "group embedding: {} of {} lookups fused into {} ops".format(
            len(report.fused), len(report.fused_lookups), len(groups)
        )
    ]
    trained = [lookup for lookup in report.fused if lookup.gradient != NO_PART]
    for part in ("gradient", "update"):
        fused = sum(getattr(lookup, part) == FUSED_PART for lookup in trained)
        if trained:
            lines.append("  {}s fused: {} of {}".format(part, fused, len(trained)))
    if report.whole_table_reads_removed:
        lines.append(
            "  {} lookups freed from reads of whole tables".format(
                len(report.whole_table_reads_removed)
            )
        )
    for lookup in report.fused_lookups:
        for refusal in lookup.refusals:
            reason = "{code} at {node}: need {need}, saw {saw}".format(**refusal)
            lines.append("  not fused: {} ({}): {}".format(lookup.name, lookup.api, reason))
    return lines


def _stage_lines(stage: StageReport) -> List[str]:
    source = " (IO stage put there by the pass)" if stage.inferred else ""
    return [
        "  stage {}: batches of {}{}, {} nodes in prefetch, {} tensors cross".format(
            stage.name, stage.io_source, source, stage.nodes, len(stage.boundary)
        )
    ]


def _transfer_lines(report: Report) -> List[str]:
    return [
        "  {} {} tensors from {} to {} travel as one".format(
            transfer.tensors, transfer.dtype, transfer.source, transfer.target
        )
        for transfer in report.packed_transfers
    ]


def _left_lines(report: Report) -> List[str]:
    lines = []
    for lookup in report.lookups:
        if lookup.refusal is not None:
            reason = "{code} at {node}: need {need}, saw {saw}".format(**lookup.refusal)
            lines.append("  left in main: {} ({}): {}".format(lookup.name, lookup.api, reason))
    for refusal in report.refusals:
        lines.append("  left alone: {code} at {node}: need {need}, saw {saw}".format(**refusal))
    if report.protected_gathers:
        lines.append(
            "  {} gathers kept from becoming whole-table reads".format(
                len(report.protected_gathers)
            )
        )
    return lines
