"""What the tests of the runtime share."""

from __future__ import annotations

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
    """Every test of the runtime ends without a thread of ours; TensorFlow keeps some of its own."""
    yield
    wait_until(lambda: prefetch_threads() == [], "end of the threads " + str(prefetch_threads()))


@pytest.fixture
def warnings_logged(monkeypatch: pytest.MonkeyPatch) -> List[str]:
    """The messages that the test logs with level WARNING, each told anew."""
    forget_warnings()
    logged: List[str] = []
    log = lambda message, *values: logged.append(message % values)  # noqa: E731
    monkeypatch.setattr(tf.logging, "warning", log)
    return logged
