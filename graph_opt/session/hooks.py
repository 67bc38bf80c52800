"""The hook through which monitored sessions and `tf.estimator` prefetch."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.session.hook_fetches import fetched_by
from graph_opt.session.installed_config import checked_options, effective_config
from graph_opt.session.optimization import optimize_training_graph
from graph_opt.session.prefetch_hook import PrefetchHook, make_prefetch_hook
from graph_opt.session.session import adopt_session, end_threads


class AsyncEmbeddingHook(tf.train.SessionRunHook):
    """Optimizes a training graph and prefetches, in whatever monitored session it hangs.

    `begin` optimizes the graph, `after_create_session` lets fetches mean what they meant before
    (boundary tensors, summaries), and the threads start with the first step that takes a batch.
    Give it as the last hook: what other hooks add to the graph in `begin` must be there.

    `graph_opt.train.MonitoredTrainingSession` and the other names of `graph_opt.train` add it by
    themselves. With `tf.estimator` and without `graph_opt.install()` it is the way to prefetch:

    Args:
      config: The session's config: a `graph_opt.ConfigProto`, a `tf.ConfigProto` or None.
      target: The session's target, by which parameter servers are asked whether they have
        graph_opt's ops; None or "" for a session in this process.

    Raises:
      tf.errors.InvalidArgumentError: an option of the config is missing or out of range.

    Example:
      >>> config = graph_opt.load_config("configs/async_embedding.pbtxt")
      >>> estimator = tf.estimator.Estimator(model_fn)
      >>> estimator.train(input_fn, hooks=[graph_opt.train.AsyncEmbeddingHook(config)])
    """

    def __init__(self, config: Any = None, target: Optional[str] = None) -> None:
        self._config = effective_config(config)
        self._target = target or ""
        if self._config is not None:
            checked_options(self._config, "")
        self._fallback = make_prefetch_hook()
        self._others: Sequence[Any] = ()

    def stand_beside(self, hooks: Sequence[Any]) -> None:
        """Tells the hook which others the session has: what these fetch can be fetched."""
        self._others = [hook for hook in hooks if hook is not self]

    def begin(self) -> None:
        """Optimizes the default graph, if it trains and the config asks for it."""
        optimize_training_graph(
            tf.get_default_graph(), self._config, self._target, fetched_by(self._others)
        )

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Takes over the session; called again for each session made on recovery.

        A session that is no plain `tf.Session` stays what it is: its stages start here, and
        fetches of what lives in prefetch fail in it.
        """
        if not adopt_session(session, self._config, coord):
            self._fallback.after_create_session(session, coord)

    def end(self, session: Any) -> None:
        """Ends the prefetch threads."""
        self._fallback.end(session)
        end_threads(session)


def with_async_hook(
    hooks: Optional[Sequence[Any]],
    config: Any,
    target: Optional[str] = None,
    chief_only_hooks: Optional[Sequence[Any]] = None,
) -> List[Any]:
    """`hooks` with an `AsyncEmbeddingHook` behind them, unless there is one.

    Prefetch hooks that the script added stay last, so that the session is ours before they start
    their threads in it.

    Args:
      hooks: A script's hooks, None for none.
      config: The session's config.
      target: The session's target, where it is known.
      chief_only_hooks: Hooks that the session will have besides; they begin before these.
    """
    given = list(hooks or ())
    everyone = [*given, *(chief_only_hooks or ())]
    ours = [hook for hook in given if isinstance(hook, AsyncEmbeddingHook)]
    for hook in ours:
        hook.stand_beside(everyone)
    if ours:
        return given
    hook = AsyncEmbeddingHook(config, target)
    hook.stand_beside(everyone)
    prefetching = [hook for hook in given if isinstance(hook, PrefetchHook)]
    others = [hook for hook in given if not isinstance(hook, PrefetchHook)]
    return others + [hook] + prefetching
