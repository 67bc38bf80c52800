"""Fixtures for all tests: quiet logs, seeds, a fresh graph, shared files, a thread check."""
# ruff: noqa: E402 (the environment must be set before the imports that read it)

from __future__ import annotations

import fcntl
import functools
import gc
import hashlib
import importlib.util
import os
import random
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Generator, Iterator, List

REPOSITORY = Path(__file__).resolve().parents[1]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Releases of TensorFlow with Keras 3 have Keras 2 as well, if they are told before their import.
if importlib.util.find_spec("tf_keras"):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(REPOSITORY / "build" / "hypothesis"))


def threads_for(cores: int, workers: int) -> int:
    """TensorFlow's threads in each of `workers` processes; at least two, so that work overlaps."""
    return min(cores, max(2, cores // workers))


CORES = len(os.sched_getaffinity(0))
THREADS = threads_for(CORES, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(THREADS))
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(THREADS))

import hypothesis
import numpy as np
import pytest

from graph_opt.compat import tf
from tests.plain_sessions import without_grappler
from tests.release_features import reason_to_skip

MakeFiles = Callable[[Path], object]
MadeOnce = Callable[[str, MakeFiles], Path]
SEED = 20201
COMPILED = REPOSITORY / "build" / "compiled_tests" / tf.version.VERSION
COMPILED_FROM = tuple(
    folder + "/*." + suffix
    for folder in ("ops_src/**", "tests/**", "tools/gpu_check")
    for suffix in ("cc", "cu", "h")
) + ("tests/ops/compiled_functors.py", "tests/tools/test_*_check.py")
HAS_HOROVOD = importlib.util.find_spec("horovod") is not None
THREAD_END_SECONDS = 120.0
# TensorFlow keeps the writers of event files, with their threads, for the rest of the process.
THREADS_OF_TENSORFLOW = ("EventLoggerThread",)

# A shell starts background jobs with interrupts ignored, and every process of a test inherits that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Sessions are slow, and nested properties share that of their test, which starts each example anew.
hypothesis.settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.function_scoped_fixture,
    ],
)
# What tests know to have failed before needs no fresh seeds, and explanations cost many examples.
hypothesis.settings.register_profile(
    "fuzz",
    hypothesis.settings.get_profile("repeatable"),
    derandomize=False,
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100")),
    phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    report_multiple_bugs=False,
)
hypothesis.settings.load_profile("repeatable")
tf.disable_v2_behavior()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hides all that stays until the end from the garbage collector, which visits it in vain."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Skips what the release of TensorFlow does not have, or this environment."""
    for item in items:
        reason = reason_to_skip(item.nodeid)
        if item.get_closest_marker("horovod") and not HAS_HOROVOD:
            reason = "Horovod is not installed: make horovod"
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Says by what a worker process was ended that did not end by itself."""
    if error:
        code = node.gateway._io.popen.wait(timeout=60)
        print("\n{} ended with exit code {}".format(node.gateway.id, code), flush=True)


@pytest.fixture(autouse=True)
def fresh_graph() -> Iterator[tf.Graph]:
    """Gives each test its own seeded graph as the default graph."""
    random.seed(SEED)
    np.random.seed(SEED)
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(SEED)
        yield graph
    # Left on, it would change the graphs of later tests of this process.
    assert not tf.control_flow_v2_enabled(), "turn it on with tests.control_flow.control_flow_v2"


@pytest.fixture(autouse=True)
def sessions_of_quick_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spares quick tests Grappler, a sixth of their time; random models and slow tests have it."""
    if any(request.node.get_closest_marker(name) for name in ("slow", "fuzz", "grappler")):
        yield
        return
    with without_grappler():
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data sets beside the checkout; the test is skipped if there is none."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no shared data beside the checkout")
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """A function that fills a named folder once for all worker processes and returns it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    return functools.partial(_made_in, root)


@pytest.fixture(scope="session")
def compiled_once() -> MadeOnce:
    """Like `made_once`, for what is compiled: it stays in build/ until a C++ source changes."""
    digest = hashlib.sha1(sys.version.encode("utf-8"))
    for pattern in COMPILED_FROM:
        for path in sorted(REPOSITORY.glob(pattern)):
            digest.update(str(path.relative_to(REPOSITORY)).encode("utf-8") + path.read_bytes())
    root = COMPILED / digest.hexdigest()
    root.mkdir(parents=True, exist_ok=True)
    for other in COMPILED.iterdir():
        if other != root:
            shutil.rmtree(other, ignore_errors=True)
    return functools.partial(_made_in, root)


def _made_in(root: Path, name: str, make: MakeFiles) -> Path:
    folder = root / ("made_" + name)
    with open(str(folder) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / "made").touch()
    return folder


@pytest.fixture
def threads_left_behind() -> Iterator[Callable[[], List[str]]]:
    """A function that names the threads that the test started and that are still running.

    The test fails if any are left at its end. Threads get `THREAD_END_SECONDS` to finish.
    """
    before = set(threading.enumerate())

    def left_behind() -> List[str]:
        deadline = time.monotonic() + THREAD_END_SECONDS
        started = [
            thread
            for thread in threading.enumerate()
            if thread not in before and thread.name not in THREADS_OF_TENSORFLOW
        ]
        for thread in started:
            thread.join(max(0.0, deadline - time.monotonic()))
        return sorted(thread.name for thread in started if thread.is_alive())

    yield left_behind
    assert left_behind() == []
