"""The hook through which monitored sessions and `tf.estimator` prefetch."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.callables import raw_session
from graph_opt.config.messages import SessionConfig
from graph_opt.session.features.deferred_rows import flush_deferred
from graph_opt.session.hook_fetches import fetched_by
from graph_opt.session.installed_config import checked_options, effective_config
from graph_opt.session.optimization import optimize_training_graph
from graph_opt.session.prefetch_hook import PrefetchHook, make_prefetch_hook
from graph_opt.session.session import adopt_session, end_threads


class AsyncEmbeddingHook(tf.train.SessionRunHook):
    """Optimizes the training graph of a monitored session and prefetches for it.

    `begin` optimizes the graph, `after_create_session` makes fetches keep their meaning (boundary
    tensors, summaries), and the threads start with the first step that takes a batch. Pass it as
    the last hook: whatever other hooks add to the graph in `begin` must already be there.

    `graph_opt.train.MonitoredTrainingSession` and the other names in `graph_opt.train` add it
    automatically. It is how to prefetch with `tf.estimator` when `graph_opt.install()` is not used.

    Args:
      config: The session's config: a `graph_opt.ConfigProto`, a `tf.ConfigProto` or None.
      target: The session's target, through which parameter servers are asked whether they have
        graph_opt's ops; None or "" for a session in this process.

    Raises:
      tf.errors.InvalidArgumentError: An option of the config is missing or out of range.

    Example:
      >>> config = graph_opt.load_config("configs/async_embedding.pbtxt")
      >>> estimator = tf.estimator.Estimator(model_fn)
      >>> estimator.train(input_fn, hooks=[graph_opt.train.AsyncEmbeddingHook(config)])
    """

    def __init__(
        self, config: Optional[SessionConfig] = None, target: Optional[str] = None
    ) -> None:
        self._config = effective_config(config)
        self._target = target
        if self._config is not None:
            checked_options(self._config, target or "")
        self._fallback = make_prefetch_hook()
        self._others: Sequence[Any] = ()

    def note_session(self, hooks: Sequence[Any], target: Optional[str]) -> None:
        """Notes what its session is made with.

        Args:
          hooks: All hooks of the session: whatever the others fetch stays fetchable.
          target: The session's target if known, for a hook that was given none.
        """
        self._others = [hook for hook in hooks if hook is not self]
        if self._target is None:
            self._target = target

    def begin(self) -> None:
        """Optimizes the default graph if it trains and the config asks for it."""
        target = self._target or ""
        if self._config is not None:
            checked_options(self._config, target)
        graph = tf.get_default_graph()
        optimize_training_graph(graph, self._config, target, fetched_by(self._others))

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Takes over the session; called again for each session created on recovery.

        A session that is not a plain `tf.Session` is left as it is: its stages start here, and
        fetching tensors that exist only in prefetch fails in it.
        """
        if not adopt_session(session, self._config, coord):
            self._fallback.after_create_session(session, coord)

    def end(self, session: Any) -> None:
        """Ends the prefetch threads, and catches up rows that outlive the session."""
        self._fallback.end(session)
        end_threads(session)
        flush_deferred(raw_session(session))


def with_async_hook(
    hooks: Optional[Sequence[Any]],
    config: Optional[SessionConfig],
    target: Optional[str] = None,
    chief_only_hooks: Optional[Sequence[Any]] = None,
) -> List[Any]:
    """`hooks` followed by an `AsyncEmbeddingHook`, unless they already include one.

    Prefetch hooks that the script added stay last, so that the session is ours before they start
    their threads in it.

    Args:
      hooks: The script's hooks; None for none.
      config: The session's config.
      target: The session's target, if known.
      chief_only_hooks: Further hooks of the session, whose `begin` is called before theirs.
    """
    given = list(hooks or ())
    everyone = [*given, *(chief_only_hooks or ())]
    ours = [hook for hook in given if isinstance(hook, AsyncEmbeddingHook)]
    for hook in ours:
        hook.note_session(everyone, target)
    if ours:
        return given
    hook = AsyncEmbeddingHook(config, target)
    hook.note_session(everyone, target)
    prefetching = [hook for hook in given if isinstance(hook, PrefetchHook)]
    others = [hook for hook in given if not isinstance(hook, PrefetchHook)]
    return others + [hook] + prefetching
