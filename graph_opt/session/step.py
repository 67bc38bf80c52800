"""What one set of fetches, targets and feeds comes to in a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from graph_opt.session.chosen_stages import ChosenStages
from graph_opt.session.pipeline_use import PipelineUse
from graph_opt.session.written_tables import TableWrite


@dataclass(frozen=True)
class Step:
    """One set of fetches, targets and feeds, resolved.

    Attributes:
      fetches: What is fetched in place of the given tensors.
      targets: What is run in place of the given operations.
      feeds: What is fed in place of the given tensors.
      takes_from: Stages that must run.
      takes: The operations by which it takes from some of them itself, by stage.
      may_take_from: Stages of which some must run, depending on what is fed.
      fills: Stages whose puts the step runs itself.
      resets: Stages whose input the step initializes, or whose variables it changes.
      pipeline: What the step means to stages that apply gradients.
      trains: Whether the step updates variables by gradients.
      concerns: Which hooks of features it is for (`StepHooks.concern`).
      written: What it writes that stages read ahead of it; None for nothing.
      given: The original elements, kept alive so that no other object reuses their ids.
    """

    fetches: List[Any]
    targets: List[Any]
    feeds: List[Any]
    takes_from: FrozenSet[str]
    takes: Dict[str, Any]
    may_take_from: Optional[ChosenStages]
    fills: FrozenSet[str]
    resets: FrozenSet[str]
    pipeline: PipelineUse
    trains: bool
    concerns: FrozenSet[type]
    written: Optional[TableWrite]
    given: Tuple[Any, ...]
