"""All features of sessions, in the order in which names are looked up and hooks are called."""

from __future__ import annotations

from typing import Any, Iterator, List, Tuple, Type

from graph_opt.passes.name_map import NameMap
from graph_opt.session.features.deferred_rows import DeferredRows
from graph_opt.session.features.exact_rows import ExactRows
from graph_opt.session.features.feature import Feature, StepHooks
from graph_opt.session.features.micro_batches import MicroBatches
from graph_opt.session.features.pipelined_steps import PipelinedSteps
from graph_opt.session.features.sampling import SampledSteps
from graph_opt.session.features.sharded_tables import ShardedTables

FEATURES: Tuple[Type[Feature], ...] = (
    ShardedTables,
    DeferredRows,
    MicroBatches,
    PipelinedSteps,
    ExactRows,
    SampledSteps,
)


def features_in(name_map: NameMap) -> Iterator[Tuple[Type[Feature], Any]]:
    """The features of a graph, with what each knows of it."""
    for feature in FEATURES:
        part = name_map.part(feature.part_type)
        if part is not None:
            yield feature, part


class SessionHooks:
    """The hooks of one session.

    Args:
      session: The session.

    Attributes:
      before_steps: Those that do something before a step.
      after_steps: Those that do something after it, while they `matter`.
    """

    def __init__(self, session: Any) -> None:
        self._hooks: List[Tuple[Type[Feature], StepHooks]] = [
            (feature, feature.hooks(session)) for feature in FEATURES if feature.hooks is not None
        ]
        hooks = list(self)
        self.before_steps = [one for one in hooks if _does(one, "before_step")]
        self.after_steps = [one for one in hooks if _does(one, "after_step")]

    def __iter__(self) -> Iterator[StepHooks]:
        return (hooks for _, hooks in self._hooks)

    def learn_graph(self, name_map: NameMap) -> None:
        """Called when the session's graph has been rewritten, or has grown."""
        for feature, hooks in self._hooks:
            hooks.learn_graph(name_map.part(feature.part_type))


def _does(hooks: StepHooks, name: str) -> bool:
    return getattr(type(hooks), name) is not getattr(StepHooks, name)
