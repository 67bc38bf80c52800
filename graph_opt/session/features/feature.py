"""What a pass may ask of whoever runs its graph: names, hooks of sessions, and later nodes.

A feature begins with what its pass leaves in the `NameMap` (`NameMap.part`). `FetchMap`
asks it for names, sessions call its hooks, and `late_nodes` has it rewrite what a graph gets
afterwards. None of these knows a feature; `features/listed.py` lists them.
"""

from __future__ import annotations

import weakref
from typing import (
    AbstractSet,
    Any,
    Callable,
    ClassVar,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Type,
)

from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView
from graph_opt.session.step import Step


class Watched(NamedTuple):
    """What of a graph concerns a feature if nodes that come later use it.

    Attributes:
      variables: Names of variables.
      values: Names of tensors with the value of one.
    """

    variables: AbstractSet[str] = frozenset()
    values: Iterable[str] = ()


class Late(NamedTuple):
    """What nodes need that a graph got after it was rewritten.

    Attributes:
      rewrite: It moves only edges into new nodes.
      part: What the feature's part of the name map is from then on.
    """

    rewrite: Rewrite
    part: Any


class Feature:
    """What one part of a name map means to those who run the graph.

    One object knows the names of one graph, for one session.

    Args:
      graph: The live graph.
      part: What the pass left.

    Attributes:
      part_type: The class of that.
      hooks: What sessions call before and after their steps; None for nothing.
      not_shadowed: Why steps cannot be run a second time as the graph was built; "" if they can.
      not_as_built: Why a step that trains cannot run as the graph was built; "" if it can.
    """

    part_type: ClassVar[Type[Any]]
    hooks: ClassVar[Optional[Type[StepHooks]]] = None
    not_shadowed: ClassVar[str] = ""
    not_as_built: ClassVar[str] = ""

    def __init__(self, graph: Any, part: Any) -> None:
        self.graph = graph

    @classmethod
    def graph_rewritten(cls, graph: Any, part: Any) -> None:
        """Called once a live graph has been rewritten."""

    @classmethod
    def watched(cls, part: Any) -> Watched:
        """What new nodes may use that concerns the feature."""
        return Watched()

    @classmethod
    def rewrite_late(cls, view: GraphView, part: Any, new: AbstractSet[str]) -> Late:
        """What new nodes need, of which at least one uses what is `watched`.

        Args:
          view: The graph as it runs.
          part: What the feature knows of it.
          new: Names of its new nodes.
        """
        return Late(Rewrite(), part)

    def in_main(self, name: str) -> Optional[str]:
        """The tensor to fetch in place of one of the user's graph; None for that itself."""
        return None

    def in_built_graph(self, name: str) -> Optional[str]:
        """The same, for a step that runs the graph as it was built."""
        return None

    def refusal_of_feed(self, name: str) -> str:
        """Why a tensor cannot be fed; "" if it can."""
        return ""

    def fed_value(self, tensor: Any, value: Any) -> Any:
        """What to feed in place of a value."""
        return value

    def run_instead(self, operation: Any) -> Sequence[Any]:
        """The operations to run in place of one."""
        return (operation,)

    def acting(self, fetches: Sequence[Any]) -> List[Any]:
        """The operations of fetched tensors that other tensors stand in for, but which act."""
        return []

    def fetched_in_step(
        self, fetched: List[Any], reached: AbstractSet[Any], given: Callable[[], AbstractSet[Any]]
    ) -> List[Any]:
        """What a step fetches, given what it comes to so far.

        Args:
          fetched: What it would fetch.
          reached: All operations that it would run.
          given: Returns those behind what it was asked for.

        Returns:
          `fetched` itself if the step does not concern the feature.

        Raises:
          tf.errors.InvalidArgumentError: Such a step cannot run.
        """
        return fetched

    def side_targets(self, reached: AbstractSet[Any]) -> List[Any]:
        """The operations that a step of these must run, too."""
        return []

    def refuse_compiled(self, fetches: Sequence[Any]) -> None:
        """Refuses what a compiled or partial step cannot fetch.

        Raises:
          tf.errors.InvalidArgumentError: It needs more than the step itself.
        """

    def results(self, session: Any, fetches: Sequence[Any], values: List[Any]) -> List[Any]:
        """The results of a step, given what it fetched for them."""
        return values


class StepHooks:
    """What a session does for a feature before and after its steps.

    Args:
      session: The session, which is not kept alive.
    """

    def __init__(self, session: Any) -> None:
        self._session = weakref.ref(session)

    @property
    def session(self) -> Any:
        """The session."""
        return self._session()

    @property
    def matter(self) -> bool:
        """Whether `after_step` is to be called."""
        return False

    def learn_graph(self, part: Any) -> None:
        """Called when the session's graph has been rewritten, or has grown.

        Args:
          part: What the feature knows of the graph; None if it does not have the feature.
        """

    def first_run(self) -> None:
        """Called before the first step."""

    def concern(self, operations: Iterable[Any]) -> bool:
        """Whether a step that runs these is one of the feature's; kept in `Step.concerns`."""
        return False

    def before_step(self, step: Step, within_limit: Callable[..., Any]) -> None:
        """Called before each step, whose stages are running.

        Args:
          step: What the session is about to run.
          within_limit: Calls a function, but waits no longer than the session may for servers.

        Raises:
          tf.errors.OpError: Servers do not answer, as the step would find.
        """

    def after_step(self, step: Step, error: Optional[BaseException]) -> None:
        """Called when a step has ended, with an error or, if that is None, well."""

    def before_close(self) -> None:
        """Called before a session that has run steps is closed."""
