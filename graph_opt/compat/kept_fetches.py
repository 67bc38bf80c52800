"""What steps fetch, taken apart once.

TensorFlow takes the lists and dicts that a script fetches apart in each step, which is half of what
its Python does for a step that feeds nothing.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from tensorflow.python.client import session as session_module

from graph_opt.compat import tf

_BASE = session_module.BaseSession
_RUN, _RUN_ANY = _BASE.run, _BASE._run
# Not if a profiler, say, has replaced them before this is imported.
_IS_STOCK = (_RUN.__qualname__, _RUN_ANY.__qualname__) == ("BaseSession.run", "BaseSession._run")
_MOST = 256  # Structures kept; scripts with more make new tensors in each step.

# TensorFlow's handler of a structure, and all whose IDs are in its key, which must live as long.
_Kept = Tuple[Any, List[Any]]


class KeptFetchesSession:
    """A mixin for classes derived from `tf.Session`: `run` keeps what TensorFlow makes of fetches.

    Structures are equal if they have the same tensors and operations at the same places. Steps that
    feed anything, or fetch by name, run as TensorFlow runs them; so do all steps where a script or
    a profiler has put something in the place of `run` or `_run` of TensorFlow's sessions.
    """

    _kept_fetches: Optional[Dict[Any, _Kept]] = None

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Like `tf.Session.run`."""
        session: Any = self
        base: Any = super()
        is_plain = not (feed_dict or run_metadata or _says_anything(options) or session._closed)
        handler = self._handler(fetches) if is_plain and _runs_as_stock(session, base) else None
        if handler is None:
            return base.run(fetches, feed_dict, options, run_metadata)
        targets, wanted = handler.targets(), handler.fetches()
        runs = targets or wanted
        results = session._do_run(None, targets, wanted, {}, None, None) if runs else []
        return handler.build_results(session, results)

    def _handler(self, fetches: Any) -> Any:
        """The `_FetchHandler` of a step that feeds nothing; None if its fetches are not kept."""
        if self._kept_fetches is None:
            self._kept_fetches = {}
        named: List[Any] = []
        key = _key(fetches, named)
        if key is None:
            return None
        kept = self._kept_fetches.get(key)
        if kept is None:
            if len(self._kept_fetches) >= _MOST:
                self._kept_fetches.clear()
            session: Any = self
            kept = session_module._FetchHandler(session.graph, fetches, {}), named
            self._kept_fetches[key] = kept
        return kept[0]


def _says_anything(options: Any) -> bool:
    """Whether RunOptions, which monitored sessions always give, differ from none."""
    return options is not None and (not isinstance(options, tf.RunOptions) or options.ByteSize())


def _runs_as_stock(session: Any, rest: Any) -> bool:
    """Whether TensorFlow's own methods are what comes between `run` and `_do_run` of a session.

    Args:
      session: The session, of whose `run` the mixin's was called.
      rest: `super()` there.
    """
    if not _IS_STOCK or _BASE.run is not _RUN or _BASE._run is not _RUN_ANY:
        return False
    return _function(rest.run) is _RUN and _function(session._run) is _RUN_ANY


def _function(method: Any) -> Any:
    return getattr(method, "__func__", None)


def _key(fetches: Any, named: List[Any]) -> Any:
    """What is equal for equal structures; adds the objects that are told apart to `named`.

    Returns:
      None if there is anything else than tensors and operations.
    """
    kind = type(fetches)
    if kind is list or kind is tuple:
        parts = [_key(each, named) for each in fetches]
    elif kind is dict:
        named.extend(fetches)
        parts = [*map(id, fetches), *[_key(each, named) for each in fetches.values()]]
    elif isinstance(fetches, (tf.Tensor, tf.Operation)):
        named.append(fetches)
        return id(fetches)
    else:
        return None
    return None if None in parts else (kind, *parts)
