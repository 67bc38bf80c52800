"""Compiled steps of a session, and what kind of session it is: private calls in one place.

Direct sessions run in this process. gRPC sessions talk to a master, which rejects the run option
that selects a thread pool ("Distributed session does not support session thread pool options").
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from tensorflow.core.protobuf.config_pb2 import CallableOptions, RunOptions

from graph_opt.compat import tf

# RunOptions.inter_op_thread_pool: kernels run in the calling thread (direct sessions only).
CALLER_THREAD = -1
DEFAULT_POOL = 0
# The step waits as long as it must, even if the session's config limits its steps.
NO_TIMEOUT = -1
_TEN_YEARS_MILLIS = 10 * 365 * 24 * 3600 * 1000


def compile_call(
    session: Any,
    fetches: Sequence[str] = (),
    targets: Sequence[str] = (),
    feeds: Sequence[str] = (),
    inter_op_thread_pool: int = DEFAULT_POOL,
    timeout_millis: int = 0,
    traced: bool = False,
) -> Callable[..., Any]:
    """Prepares a step once, so that running it costs microseconds and does not hold the GIL.

    Args:
      session: A `tf.Session`.
      fetches: Names of tensors whose values the call returns, as a list of numpy arrays.
      targets: Names of operations to run.
      feeds: Names of tensors to feed; the call takes one numpy value for each, in this order.
      inter_op_thread_pool: Index into the session's `session_inter_op_thread_pool`; 0 is the
        default pool, `CALLER_THREAD` is no pool. Ignored for a gRPC session, which has no choice.
      timeout_millis: The longest that the step may take; 0 means the session's own limit
        (`operation_timeout_in_ms`), `NO_TIMEOUT` none. A gRPC session's own limit always applies.
      traced: Whether to collect the times of each op; the call then takes the keyword argument
        `run_metadata`.

    Returns:
      A function that several threads may call at once. It raises `tf.errors.OpError` with the
      runtime's message (`CancelledError` once the session is closed).
    """
    options = RunOptions(timeout_in_ms=timeout_option(session, timeout_millis))
    if traced:
        options.trace_level = trace_level(session)
    if traced and not is_direct_session(session):
        return _traced_run(session, list(targets) + list(fetches), feeds, options)
    if is_direct_session(session):
        options.inter_op_thread_pool = inter_op_thread_pool
    callable_options = CallableOptions(run_options=options)
    callable_options.feed.extend(feeds)
    callable_options.fetch.extend(fetches)
    callable_options.target.extend(targets)
    return session._make_callable_from_options(callable_options)


def timeout_option(session: Any, timeout_millis: int) -> int:
    """The limit for RunOptions; takes what `compile_call` takes as `timeout_millis`."""
    if timeout_millis != NO_TIMEOUT:
        return timeout_millis
    # A step with a limit costs more than one without.
    limited = session._config is not None and session._config.operation_timeout_in_ms > 0
    return _TEN_YEARS_MILLIS if limited else 0


def _traced_run(
    session: Any, names: Sequence[str], feeds: Sequence[str], options: Any
) -> Callable[..., Any]:
    """What `compile_call` makes for a gRPC session, whose compiled steps collect no times."""

    def run(*values: Any, run_metadata: Any) -> Any:
        results = session.run(names, dict(zip(feeds, values)), options, run_metadata)
        return [result for result in results if result is not None]

    return run


def trace_level(session: Any) -> int:
    """The RunOptions trace level that collects the times of ops, and as little else as possible.

    A gRPC session collects them only at FULL_TRACE.
    """
    full = not is_direct_session(session)
    return int(tf.RunOptions.FULL_TRACE if full else tf.RunOptions.SOFTWARE_TRACE)


def is_direct_session(session: Any) -> bool:
    """Whether the session's kernels run in this process, without a gRPC master."""
    return not session.sess_str


def is_closed(session: Any) -> bool:
    """Whether `session.close()` was called."""
    return bool(session._closed)


def thread_pool_count(session: Any) -> int:
    """How many inter-op pools the session was opened with; the first is the default one."""
    config = session._config
    return len(config.session_inter_op_thread_pool) if config is not None else 0


def raw_session(session: Any) -> Any:
    """The `tf.Session` inside a monitored or otherwise wrapped session, or the session itself.

    Raises:
      ValueError: The session is a monitored one that is closed, so there is nothing inside.
    """
    inner = session._tf_sess() if hasattr(session, "_tf_sess") else session
    while hasattr(inner, "_sess") and not hasattr(inner, "_make_callable_from_options"):
        inner = inner._sess
    if inner is None:
        raise ValueError("the session is closed: it no longer has any buffers")
    return inner
