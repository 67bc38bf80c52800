"""Training sessions and their halves, held open side by side so that they can run alternately."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster, start_cluster
from tools.bench.cluster.processes import ChildProcess
from tools.bench.training.floor import (
    Half,
    compute_alone,
    lookups_alone,
    main_alone,
    products_alone,
)
from tools.bench.training.sessions import (
    ASYNC,
    PREFETCHING_MODES,
    SessionOptions,
    open_training_session,
    session_config,
)
from tools.bench.workloads.workload import Learning, TrainingGraph, Workload, training_graph

MAIN_ALONE = "main_alone"
LOOKUPS_ALONE = "lookups_alone"
COMPUTE_ALONE = "compute_alone"
PRODUCTS_ALONE = "products_alone"
FLOORS = (MAIN_ALONE, LOOKUPS_ALONE)


# Of graph_opt's buffer metrics those that only grow.
COUNTERS = (
    "put_count",
    "take_count",
    "put_waits",
    "take_waits",
    "put_wait_micros",
    "take_wait_micros",
    "taken_bytes",
)

Buffers = Dict[str, Dict[str, int]]


class Turn(NamedTuple):
    """Some steps of one contender, run without a break.

    Attributes:
      steps: how many, of each worker.
      seconds: wall time of all of them.
      cpu_seconds: CPU time used meanwhile, by role: worker, ps, proxy.
      step_seconds: wall time of each step; empty where several threads ran them.
      buffers: what graph_opt's counters grew by meanwhile, by stage; empty where no
        lookup runs ahead.
    """

    steps: int
    seconds: float
    cpu_seconds: Dict[str, float]
    step_seconds: Sequence[float]
    buffers: Buffers

    @property
    def seconds_per_step(self) -> float:
        """Wall time over steps."""
        return self.seconds / self.steps

    @property
    def cpu_seconds_per_step(self) -> float:
        """CPU time of all processes over steps."""
        return sum(self.cpu_seconds.values()) / self.steps


Turns = Dict[str, List[Turn]]


class Contender(NamedTuple):
    """Something that runs steps.

    Attributes:
      name: its mode, "main_alone" or "lookups_alone".
      cluster: the processes it uses.
      session: what it runs in.
      step: runs one step.
      threads: how many threads run steps side by side.
      counters: reads graph_opt's buffer metrics.
      others: workers (other_worker.py) that run as many steps at the same time.
      training: the graph that it trains; None if it runs half of one.
    """

    name: str
    cluster: Cluster
    session: Any
    step: Callable[[], Any]
    threads: int = 1
    counters: Callable[[], Buffers] = dict
    others: Sequence[ChildProcess] = ()
    training: Optional[TrainingGraph] = None

    def run(self, steps: int) -> Turn:
        """Runs `steps` steps (at least 1) and measures them."""
        buffers_before = self.counters()
        cpu_before = self._cpu_seconds()
        start = time.perf_counter()
        for other in self.others:
            other.tell(str(steps))
        step_seconds = self._timed_steps(steps) if self.threads == 1 else self._shared(steps)
        for other in self.others:
            other.ready_line()
        seconds = time.perf_counter() - start
        cpu_after = self._cpu_seconds()
        used = {role: cpu_after[role] - cpu_before[role] for role in cpu_after}
        return Turn(steps, seconds, used, step_seconds, _growth(buffers_before, self.counters()))

    def _cpu_seconds(self) -> Dict[str, float]:
        used = self.cluster.cpu_seconds()
        others = sum(other.cpu_seconds() for other in self.others)
        return dict(used, worker=used["worker"] + others)

    def _timed_steps(self, steps: int) -> List[float]:
        times = []
        before = time.perf_counter()
        for _ in range(steps):
            self.step()
            now = time.perf_counter()
            times.append(now - before)
            before = now
        return times

    def _shared(self, steps: int) -> List[float]:
        numbers = iter(range(steps))  # `next` on a range's iterator is atomic

        def run_some() -> None:
            while next(numbers, None) is not None:
                self.step()

        threads = [threading.Thread(target=run_some) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return []


class Setting(NamedTuple):
    """What is measured and where.

    Attributes:
      workload: model and data.
      learning: optimizer, rate, seed.
      session: thread counts, prefetching, checkpoint directory. The mode is set for each
        contender.
      servers: parameter-server processes of each contender; 0: none.
      delay_ms: latency each way to them.
    """

    workload: Workload
    learning: Learning = Learning()
    session: SessionOptions = SessionOptions()
    servers: int = 0
    delay_ms: float = 0.0


@contextlib.contextmanager
def open_trainer(
    setting: Setting,
    mode: str,
    training: TrainingGraph,
    cluster: Cluster,
    hooks: Sequence[Any] = (),
    directory: Optional[str] = None,
) -> Iterator[Contender]:
    """Opens a training session.

    Args:
      setting: what is measured.
      mode: one of `sessions.MODES` or `sessions.ADAM_MODES`.
      training: the graph, built for `cluster`; all modes but "stock" rewrite it.
      cluster: where the variables live. Two trainers must not share parameter servers: variables
        of one name are one variable there.
      hooks: session hooks.
      directory: checkpoints go there, the last one when the block ends; None: none are written.
    """
    options = setting.session._replace(mode=mode, checkpoint_directory=directory)
    with training.graph.as_default():
        session = open_training_session(options, cluster, hooks)
    # Entered only now: sessions that are open side by side must not nest as defaults.
    with _closing(session, training.graph):
        counters = _counters_of(session) if mode in PREFETCHING_MODES else dict

        def step() -> None:
            session.run(training.train_op)

        yield Contender(mode, cluster, session, step, counters=counters, training=training)


@contextlib.contextmanager
def open_in(setting: Setting, mode: str, cluster: Cluster) -> Iterator[Contender]:
    """Opens a training session with a graph of its own.

    Args:
      setting: what is measured.
      mode: see `open_trainer`.
      cluster: where the variables live.
    """
    training = training_graph(setting.workload, setting.learning, cluster)
    with open_trainer(setting, mode, training, cluster) as trainer:
        yield trainer


@contextlib.contextmanager
def open_alone(setting: Setting, mode: str, counts: bool = False) -> Iterator[Contender]:
    """Opens a training session with a graph and servers of its own.

    Args:
      setting: what is measured and where.
      mode: see `open_trainer`.
      counts: have a proxy that counts calls and bytes.
    """
    with start_cluster(setting.servers, setting.delay_ms, counts=counts) as cluster:
        with open_in(setting, mode, cluster) as trainer:
            yield trainer


@contextlib.contextmanager
def open_halves(
    setting: Setting, training: TrainingGraph, cluster: Cluster
) -> Iterator[Dict[str, Contender]]:
    """Opens main alone and lookups alone of a training graph whose lookups were made to run ahead.

    With parameter servers they work on the variables there, which main alone goes on training (on
    one batch again and again); otherwise on copies of their own. With servers, compute alone is
    what main does on the worker, with nothing sent or received. Products alone are main's matrix
    products.
    """
    lookups = lookups_alone(training)
    with contextlib.ExitStack() as stack:
        lookups_session = stack.enter_context(_half_session(lookups, cluster))
        main = main_alone(training, lookups_session.run(lookups.fetches))
        main_session = stack.enter_context(_half_session(main, cluster))
        halves = {
            MAIN_ALONE: Contender(MAIN_ALONE, cluster, main_session, _step_of(main_session, main)),
            LOOKUPS_ALONE: Contender(
                LOOKUPS_ALONE,
                cluster,
                lookups_session,
                _step_of(lookups_session, lookups),
                _prefetch_threads(setting),
            ),
        }
        parts = {PRODUCTS_ALONE: products_alone(main, main_session)}
        if cluster.servers:
            parts[COMPUTE_ALONE] = compute_alone(main, main_session)
        for name, part in parts.items():
            session = stack.enter_context(_half_session(part, Cluster()))
            halves[name] = Contender(name, cluster, session, _step_of(session, part))
        yield halves


def _prefetch_threads(setting: Setting) -> int:
    config = session_config(ASYNC, setting.session.prefetching)
    return int(config.graph_options.optimizer_options.async_embedding_options.threads_num)


def _counters_of(session: Any) -> Callable[[], Buffers]:
    import graph_opt

    return lambda: graph_opt.metrics(session)


def _growth(before: Buffers, after: Buffers) -> Buffers:
    return {
        stage: {name: after[stage][name] - counters[name] for name in COUNTERS}
        for stage, counters in before.items()
    }


@contextlib.contextmanager
def _closing(session: Any, graph: tf.Graph) -> Iterator[None]:
    """Ends a monitored session as its own `with` block would, on its own graph."""
    try:
        yield
    except BaseException as error:
        with graph.as_default():
            session.__exit__(type(error), error, error.__traceback__)
        raise
    with graph.as_default():
        session.__exit__(None, None, None)


@contextlib.contextmanager
def _half_session(half: Half, cluster: Cluster) -> Iterator[tf.Session]:
    session = tf.Session(cluster.master, graph=half.graph)
    try:
        if not cluster.servers:
            session.run(half.initializers)
        yield session
    finally:
        session.close()


def _step_of(session: tf.Session, half: Half) -> Callable[[], Any]:
    with half.graph.as_default():
        operations = sorted({_operation(half.graph, name).name for name in half.fetches})
    return session.make_callable([half.graph.get_operation_by_name(name) for name in operations])


def _operation(graph: tf.Graph, name: str) -> tf.Operation:
    element = graph.as_graph_element(name)
    return element.op if isinstance(element, tf.Tensor) else element
