"""Every step of every session of the process, whatever its class and whoever opened it."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, Callable, List, Optional, Tuple

from tensorflow.python.client import session as session_module

from graph_opt.compat import tf
from graph_opt.compat.sessions import Elements
from graph_opt.compat.shared_sessions import SharedSession
from graph_opt.compat.tensor_keys import tensor_of

Around = Callable[[Any, Elements, Elements, Elements, Callable[[], Any]], Any]
Feeds = List[Tuple[Any, Any]]
BeforeClosing = Callable[[Any, Optional[BaseException]], None]
Instead = Callable[[Any, Elements, Elements, Feeds], Optional[Elements]]

# What TensorFlow 2.15 puts around the message of an error in a graph.
_DEFINED_AT = re.compile(r"\AGraph execution error:.*?^Node: [^\n]*\n", re.DOTALL | re.MULTILINE)
_NODES = re.compile(r"\n?\s*\[\[[^\]]*\]\]")
# TensorFlow 1 says in it where the node was made, instead of around it.
_NODE = re.compile(r"\{\{node ([^}]*)\}\}|\[\[node (\S+) \(defined at ")

_around: List[Around] = []
_instead: List[Instead] = []
_before_closing: List[BeforeClosing] = []
_replaced: List[str] = []


def run_steps_through(around: Around) -> None:
    """From this call on, each step is run by `around(session, fetches, targets, feeds, run)`.

    `run()` runs it, and returns what the step has to return. The steps of stages' threads are not
    among them. Adding the same function again has no effect.
    """
    _watch_steps()
    if around not in _around:
        _around.append(around)


def offer_runs_to(instead: Instead) -> None:
    """From this call on, what `session.run` is about to run is offered to a function first.

    It is called as `instead(session, fetches, targets, feeds)`, where `feeds` has tensors and their
    values, and returns the values of the fetches if it has done what the step does, or None.
    """
    _watch_steps()
    if instead not in _instead:
        _instead.append(instead)


def before_sessions_close(call: BeforeClosing) -> None:
    """From this call on, each session is given to a function before it is closed.

    It is called as `call(session, error)` in the thread that closes the session, with the error
    that ends the session's block, if there is one, and possibly a second time without it.
    """
    if not _before_closing:
        _replace_close()
    if call not in _before_closing:
        _before_closing.append(call)


def failed_node(error: tf.errors.OpError) -> str:
    """Name of the node that failed, as TensorFlow's message gives it; "" if it names none."""
    found = _NODE.search(str(error.message))
    return found.group(1) or found.group(2) if found else ""


def own_message(error: tf.errors.OpError) -> str:
    """What the kernel said, without where in the script its node was made."""
    message = str(error.message).partition("\n\nOriginal stack trace for ")[0]
    if message.startswith("Graph execution error:"):
        message = _DEFINED_AT.sub("", message)
    return _NODES.sub("", message).strip()


def _run(session: Any, fetches: Elements, targets: Elements, feeds: Elements, run: Any) -> Any:
    for around in _around:
        run = functools.partial(around, session, fetches, targets, feeds, run)
    return run()


def _run_instead(session: Any, handle: Any, targets: Any, fetches: Any, feeds: Any) -> Any:
    if handle is not None or isinstance(session, SharedSession):
        return None
    for instead in _instead:
        fed = [(tensor_of(reference), value) for reference, value in feeds.items()]
        results = instead(session, fetches, targets, fed)
        if results is not None:
            return results
    return None


def _watch_steps() -> None:
    if not _replaced:
        _replaced.append("steps")
        _replace_methods()


def _replace_methods() -> None:
    session_class = session_module.BaseSession
    do_run, make_callable = session_class._do_run, session_class.make_callable
    make_from_options = session_class._make_callable_from_options

    @functools.wraps(do_run)
    def do_run_watched(
        self: Any, handle: Any, targets: Elements, fetches: Elements, feeds: Any, *rest: Any
    ) -> Any:
        results = _run_instead(self, handle, targets, fetches, feeds)
        if results is not None:
            return results
        run = functools.partial(do_run, self, handle, targets, fetches, feeds, *rest)
        if isinstance(self, SharedSession):
            return run()
        return _run(self, fetches, targets, [tensor_of(feed) for feed in feeds], run)

    @functools.wraps(make_callable)
    def make_callable_watched(
        self: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        inner = make_callable(self, fetches, feed_list, accept_options)
        if feed_list is not None or isinstance(self, SharedSession):
            return inner  # With feeds, it calls `run`.
        handler = session_module._FetchHandler(self.graph, fetches, {})
        step = handler.fetches(), handler.targets()

        def call(**options: Any) -> Any:
            return _run(self, *step, [], functools.partial(inner, **options))

        return call

    @functools.wraps(make_from_options)
    def make_from_options_watched(self: Any, options: Any) -> Any:
        inner = make_from_options(self, options)
        if isinstance(self, SharedSession):
            return inner
        graph = self.graph
        fetches, targets, feeds = (
            [graph.as_graph_element(name) for name in names]
            for names in (options.fetch, options.target, options.feed)
        )

        def call(*values: Any, **named: Any) -> Any:
            run = functools.partial(inner, *values, **named)
            return _run(self, fetches, targets, feeds, run)

        return call

    session_class._do_run = do_run_watched
    session_class.make_callable = make_callable_watched
    session_class._make_callable_from_options = make_from_options_watched


def _replace_close() -> None:
    close, leave = session_module.BaseSession.close, session_module.Session.__exit__

    @functools.wraps(close)
    def close_watched(self: Any) -> None:
        _tell_closing(self, sys.exc_info()[1])
        close(self)

    # It closes in a thread of its own, which it waits for no longer than 30 seconds.
    @functools.wraps(leave)
    def leave_watched(self: Any, kind: Any, error: Any, trace: Any) -> Any:
        _tell_closing(self, error)
        return leave(self, kind, error, trace)

    session_module.BaseSession.close = close_watched
    session_module.Session.__exit__ = leave_watched


def _tell_closing(session: Any, error: Optional[BaseException]) -> None:
    if not getattr(session, "_closed", True):
        for call in _before_closing:
            call(session, error)
