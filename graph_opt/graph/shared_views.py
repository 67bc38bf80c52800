"""One view of each graph, for commands that look at the same graph in many places."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, TypeVar

from graph_opt.graph.view import GraphView

_Answer = TypeVar("_Answer")
# By what was asked of the object with this id; the object is kept, so that no other gets its id.
_Answers = Dict[Tuple[Any, int], Tuple[Any, Any]]
_answers: contextvars.ContextVar[Optional[_Answers]] = contextvars.ContextVar(
    "answers", default=None
)


@contextlib.contextmanager
def views_shared() -> Iterator[None]:
    """Has `view_of` index each graph only once inside the block.

    Graphs must not change there, except that nodes may get further attributes.
    """
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def asked_once(function: Callable[[Any], _Answer]) -> Callable[[Any], _Answer]:
    """Decorates a function of a graph or view: inside `views_shared` it runs once for each.

    Nobody may change what it returns.
    """

    @functools.wraps(function)
    def answered(graph: Any) -> _Answer:
        answers = _answers.get()
        if answers is None:
            return function(graph)
        key = function, id(graph)
        if key not in answers:
            answers[key] = graph, function(graph)
        answer: _Answer = answers[key][1]
        return answer

    return answered


@asked_once
def view_of(graph_def: Any) -> GraphView:
    """The view of a graph: inside `views_shared` the one that was made before, if there is one.

    Raises:
      InvalidArgumentError: As for a new view.

    Example:
      >>> with views_shared():
      ...     assert view_of(graph_def) is view_of(graph_def)
    """
    return GraphView(graph_def)
