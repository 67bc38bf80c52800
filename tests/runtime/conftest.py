"""Fixtures for the tests of the runtime."""

from __future__ import annotations

import gc
from typing import Any, Iterator, List

import pytest

from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings
from tests.runtime.sources import prefetch_threads, wait_until


@pytest.fixture(scope="session")
def server() -> Any:
    """A gRPC server in this process; TensorFlow cannot stop one, so there is only one."""
    return tf.train.Server.create_local_server()


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """Checks that no test of the runtime leaves one of our threads; TensorFlow keeps some.

    Before the test, threads may be left of a session that a test of other folders has not closed.
    """
    if prefetch_threads():
        gc.collect()
    _wait_for_end_of_threads()
    yield
    _wait_for_end_of_threads()


def _wait_for_end_of_threads() -> None:
    wait_until(lambda: prefetch_threads() == [], "end of the threads " + str(prefetch_threads()))


@pytest.fixture
def warnings_logged(monkeypatch: pytest.MonkeyPatch) -> List[str]:
    """The WARNING messages that the test logs, including those that are logged only once."""
    forget_warnings()
    logged: List[str] = []
    log = lambda message, *values: logged.append(message % values)  # noqa: E731
    monkeypatch.setattr(tf.logging, "warning", log)
    return logged
