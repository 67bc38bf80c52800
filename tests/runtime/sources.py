"""Small inputs and sessions for the tests of the runtime."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional

from graph_opt.compat import tf
from graph_opt.runtime.runner import StageRunner
from graph_opt.session.prefetch_hook import PrefetchHook, make_prefetch_hook

WAIT_SECONDS = 120.0
# A user waits at most a second when a session ends; a busy machine takes longer.
STOP_SECONDS = 15.0


def numbers(count: Optional[int] = None) -> Any:
    """int64 scalars 0, 1, 2 ... `count` - 1 (endless if None) from a one-shot iterator."""
    dataset = tf.data.Dataset.range(count if count is not None else 2**40)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def failing_at(count: int, bad: int, message: str = "row is torn") -> Any:
    """Numbers of which number `bad` fails to parse: a real InvalidArgument from a kernel."""
    rows = ["{}".format(row) if row != bad else message for row in range(count)]
    dataset = tf.data.Dataset.from_tensor_slices(rows)
    text = tf.data.make_one_shot_iterator(dataset).get_next()
    return tf.string_to_number(text, tf.int64, name="parse")


def folded_by_each(compilations: List[None]) -> Any:
    """An int64 zero that TensorFlow computes, as a constant, whenever it compiles a step with it.

    Args:
      compilations: Gets an element each time.
    """

    def compute(zero: Any) -> Any:
        compilations.append(None)
        return zero

    return tf.py_func(compute, [tf.constant(0, tf.int64)], tf.int64, stateful=False)


@contextmanager
def prefetching(
    session: Any, coordinator: Optional[Any] = None, **options: Any
) -> Iterator[PrefetchHook]:
    """Runs the session's stages while the block runs."""
    hook = make_prefetch_hook(**options)
    hook.after_create_session(session, coordinator)
    try:
        yield hook
    finally:
        hook.end(session)


def runner_of(hook: PrefetchHook) -> StageRunner:
    """The runner that the hook has started."""
    assert hook.runner is not None
    return hook.runner


def drain(session: Any, fetch: Any) -> List[Any]:
    """All values of `fetch` until the end of input."""
    values = []
    while True:
        try:
            values.append(session.run(fetch))
        except tf.errors.OutOfRangeError:
            return values


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Waits until `happened()` is true; fails after `WAIT_SECONDS`."""
    deadline = time.monotonic() + WAIT_SECONDS
    pause = threading.Event()
    while not happened():
        assert time.monotonic() < deadline, "never happened: " + what
        pause.wait(0.002)


def stage_threads() -> List[str]:
    """Names of those that take batches, and not of what compiles a step aside."""
    return [name for name in prefetch_threads() if not name.endswith("/aside")]


def prefetch_threads() -> List[str]:
    """Names of graph_opt's threads that are still alive."""
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("graph_opt/"))
