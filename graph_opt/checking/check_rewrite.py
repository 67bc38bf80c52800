"""The check of a rewrite inside a program: a graph and some batches, stock and rewritten."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from graph_opt.checking import variable_values
from graph_opt.checking.ahead_of_updates import ahead_of_updates
from graph_opt.checking.check import Wanted, check
from graph_opt.checking.fetched_values import fetched_values
from graph_opt.checking.records import Facts, Run, Step, Variables, digest_of
from graph_opt.checking.unrepeatable import unrepeatable_parts
from graph_opt.checking.verdict import CheckResult
from graph_opt.compat import tf
from graph_opt.compat.sessions import share_session
from graph_opt.compat.step_calls import own_message
from graph_opt.config import extend, merge
from graph_opt.config.messages import SessionConfig
from graph_opt.config.options import SWITCHES
from graph_opt.config.settings import settings_config
from graph_opt.reporting.summary import summary
from graph_opt.runtime.lock_step import go_in_lock_step
from graph_opt.runtime.stages import stages_of
from graph_opt.session.graph_records import asked_of, report_of
from graph_opt.session.session import Session
from graph_opt.session.stage_threads import apply_gradients

_NO_FETCHES = (
    "the graph has neither a train_op nor a loss in its collections: give fetches, the tensors and "
    "operations that a step runs"
)
_END = "OutOfRangeError"
_ITERATOR_INITIALIZER = "MakeIterator"
Batches = Union[int, Iterable[Mapping[Any, Any]]]


def check_rewrite(
    graph: Any, config: Optional[SessionConfig], batches: Batches, fetches: Any = ()
) -> CheckResult:
    """Trains a graph stock and rewritten, and compares what steps return and the variables.

    Copies of the graph are run, each in a session of its own, from the same initial values, which
    its initializers give in the first run. The graph itself, and open sessions on it, stay as they
    are. Rewritten, each batch is looked up after the update of the step before; if lookups are
    prefetched, a further run with the config as it is shows what the updates make that rows miss.

    Args:
      graph: A complete `tf.Graph`, with gradients and updates, that was not rewritten.
      config: What to check: a `graph_opt.ConfigProto` or a stock one.
      batches: What each step is fed: dicts from tensors, or their names, to values; or a number of
        steps, for a graph that reads its batches itself, by iterators or queues. Steps end with the
        input.
      fetches: What each step runs: tensors and operations, or their names, as one, a list, or any
        other structure. By default the collections `TRAIN_OP` and `LOSSES`.

    Returns:
      The verdict, which is `equal` bit for bit, `rounding` (equal within that of float32),
      `different`, or `unchecked` if steps fail or are not repeatable. `str` of it is for people.

    Raises:
      ValueError: There is nothing to fetch.
      TypeError: A batch feeds something that is no tensor of the graph.
      KeyError: The graph has nothing of the name that is to be fetched.

    Example:
      >>> result = graph_opt.check_rewrite(graph, config, 20, [train_op, loss])
      >>> if result.exit_code:
      ...   print(result)
    """
    return check(_GraphRuns(graph, config, batches, fetches).run)


class _GraphRuns:
    """Makes runs of copies of a graph."""

    def __init__(self, graph: Any, config: Any, batches: Batches, fetches: Any) -> None:
        self._meta_graph = tf.train.export_meta_graph(graph=graph)
        self._config = extend(config)
        if isinstance(batches, int):
            self._feeds: List[Dict[str, Any]] = [{}] * batches
        else:
            self._feeds = [dict(_fed(batch)) for batch in batches]
        collected = (tf.GraphKeys.TRAIN_OP, tf.GraphKeys.LOSSES)
        wanted = tf.nest.flatten(fetches, expand_composites=True) or [
            one for key in collected for one in graph.get_collection(key)
        ]
        if not wanted:
            raise ValueError(_NO_FETCHES)
        self._fetches = list(dict.fromkeys(map(_name, wanted)))
        self._initial: Optional[Dict[str, np.ndarray]] = None

    def run(self, wanted: Wanted) -> Run:
        """Makes a run."""
        run = Run()
        feeds = self._feeds[: wanted.most_updates or None]
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(self._meta_graph, graph=graph)
            initializers = _initializers(graph)
            config = merge(self._config, settings_config(wanted.settings))
            try:
                with Session(graph=graph, config=config) as session:
                    lock_step = go_in_lock_step(share_session(session))
                    self._initialize(session, initializers)
                    if not wanted.in_lock_step:
                        lock_step.open()
                    with _queues_filled(session):
                        self._train(session, feeds, lock_step, run)
            except tf.errors.OpError as error:
                run.failure = "failed: " + " ".join(own_message(error).split())
            fetched = [graph.as_graph_element(name) for name in self._fetches]
            facts = _facts(graph, [getattr(one, "op", one) for one in fetched])
            run.facts = facts._replace(reached_limit=len(feeds) < len(self._feeds))
        return run

    def _initialize(self, session: Any, initializers: Sequence[Any]) -> None:
        for initializer in initializers:
            session.run(initializer)
        names = {one.op.name for one in variable_values.global_variables(session.graph)}
        if self._initial is None:
            self._initial = variable_values.values_by_name(session, names)
        else:
            variable_values.assign(session, self._initial)

    def _train(
        self, session: Any, feeds: Sequence[Dict[str, Any]], lock_step: Any, run: Run
    ) -> None:
        stages = [stage.name for stage in stages_of(session.graph) if stage.spec.is_prefetch]
        elements = [session.graph.as_graph_element(name) for name in self._fetches]
        tensors = [one for one in elements if isinstance(one, tf.Tensor)]
        names, types = [one.name for one in tensors], [one.op.type for one in tensors]
        for number, fed in enumerate(feeds, 1):
            digests = {name: digest_of(value) for name, value in fed.items()}
            apply_gradients(session)
            lock_step.ask(stages)
            try:
                results = session.run(elements, fed)
            except tf.errors.OutOfRangeError:
                run.steps.append(Step(1, 1, number, 0, number, digests, (), raised=_END))
                break
            values = fetched_values(names, types, results)
            run.steps.append(Step(1, 1, number, 0, number, digests, values))
        run.variables.append(Variables(1, len(run.steps), variable_values.recorded(session)))


def _initializers(graph: Any) -> Tuple[Any, ...]:
    """What initializes variables, tables and iterators, in this order."""
    iterators = [one for one in graph.get_operations() if one.type == _ITERATOR_INITIALIZER]
    first = [tf.global_variables_initializer(), tf.local_variables_initializer()]
    return (first, tf.tables_initializer(), iterators)


def _facts(graph: Any, operations: Sequence[Any]) -> Facts:
    asked, report = asked_of(graph), report_of(graph)
    requests = zip(SWITCHES, asked.requests) if asked is not None else ()
    return Facts(
        sessions=(summary(report),) if asked is not None and report is not None else (),
        ahead=ahead_of_updates(graph),
        asked=tuple(name for name, wanted in requests if wanted is not None),
        unrepeatable=tuple(unrepeatable_parts(graph, operations)),
        exact=asked is not None and bool(asked.async_embedding and asked.async_embedding.exact),
    )


def _fed(batch: Mapping[Any, Any]) -> Iterator[Tuple[str, np.ndarray]]:
    """Names of tensors, those of a sparse one among them, and the values that they are fed."""
    for key, value in batch.items():
        if isinstance(key, tf.SparseTensor):
            for part, own in zip(tf.nest.flatten(key, expand_composites=True), value):
                yield _name(part), np.asarray(own)
        else:
            yield _name(key), np.asarray(value)


@contextlib.contextmanager
def _queues_filled(session: Any) -> Iterator[None]:
    """Runs the graph's queue runners, as monitored sessions do."""
    coordinator = tf.train.Coordinator(clean_stop_exception_types=(Exception,))
    threads = tf.train.start_queue_runners(session, coordinator)
    try:
        yield
    finally:
        coordinator.request_stop()
        coordinator.join(threads, ignore_live_threads=True)


def _name(element: Any) -> str:
    return element if isinstance(element, str) else str(element.name)
