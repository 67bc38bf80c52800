"""`staged` and `prefetch_join`: put a bounded buffer behind tensors and read them from it."""

from __future__ import annotations

from numbers import Integral
from typing import Any, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

from graph_opt.compat import live_graph, tf
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops import load_library
from graph_opt.ops.stage_nodes import BUFFER_PUT, BUFFER_TAKE, control_nodes, place_name
from graph_opt.ops.stage_spec import (
    AUTO,
    DEFAULT_PRIORITY,
    DEFAULT_TUNING_BYTES,
    IDLE_PRIORITY,
    KIND_IO,
    MAINS_THREADS,
    NO_THREAD_POOL,
    THREADS,
    StageSpec,
    put_attributes,
    take_attributes,
)
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime import draws, python_spec, record
from graph_opt.runtime.exception_types import split_exception_types
from graph_opt.runtime.feeds import FeedPlan, plan_feeds

DEFAULT_TIMEOUT_MILLIS = 300000
DEFAULT_AUTOTUNE_MEMORY_MB = DEFAULT_TUNING_BYTES >> 20
_CPU = "/device:CPU:0"


class _Outcomes(NamedTuple):
    """Exceptions that end the input or skip a batch, as the user lists them."""

    closed: Any
    ignored: Any


def staged(
    features: Any,
    feed_dict: Optional[Mapping[Any, Any]] = None,
    capacity: int = 1,
    num_threads: int = 1,
    num_clients: int = 1,
    timeout_millis: int = DEFAULT_TIMEOUT_MILLIS,
    closed_exception_types: Any = (tf.errors.OutOfRangeError,),
    ignored_exception_types: Any = (),
    use_stage_subgraph_thread_pool: bool = False,
    stage_subgraph_thread_pool_id: int = 0,
    stage_subgraph_stream_id: int = 0,
    name: Optional[str] = None,
    prefetch_priority: int = DEFAULT_PRIORITY,
    unordered: bool = False,
    autotune_memory_mb: int = DEFAULT_AUTOTUNE_MEMORY_MB,
) -> Any:
    """Computes `features` ahead of the graph that consumes them.

    What `features` depends on runs in separate threads, which put each result into a buffer. The
    returned tensors read the buffer, in the order in which the batches were drawn from iterators,
    queues, `feed_dict` and earlier stages, whatever the number of threads. An error of a step takes
    the place of its batch: it is raised once, and the next step continues with the batch after it.
    The threads start with the session: add `graph_opt.make_prefetch_hook()` to its hooks, or open
    it with graph_opt's own session classes.

    ```
    thread:  [read n+1][put]  [read n+2][put waits: full ......]
    main:    [take n][train n          ][take n+1][train n+1   ]
    ```

    Args:
      features: A nest (dict, list, tuple, namedtuple) of tensors, SparseTensors, RaggedTensors
        and None, with at least one tensor.
      feed_dict: Placeholders that the stage's threads feed at each step. A value may be a tensor
        (evaluated just before), a constant, a callable (called at each step) or an iterator
        (StopIteration is the end of input; a recovered session goes on where it stood). A tuple
        of placeholders takes tuples of values, so that one generator feeds several. Threads draw
        from Python sources one at a time.
      capacity: Maximum number of elements in the buffer for each client; -1 to have it tuned while
        the stage runs.
      num_threads: Number of threads that fill the buffer; -1 to have it tuned. They draw batches
        one at a time, and do everything else, such as parsing, in parallel.
      num_clients: Number of consumers that take from the buffer at the same time; it holds
        `capacity * num_clients` elements.
      timeout_millis: The longest time in milliseconds that a thread waits for room in the buffer;
        then DeadlineExceededError takes the place of its batch. 0 means no limit.
      closed_exception_types: Errors that mean the end of input: classes of `tf.errors`, their
        codes, or other exception classes (raised by `feed_dict` or inside `tf.py_func`). Once
        every thread has met one, and the buffer is empty, consumers get OutOfRangeError.
      ignored_exception_types: Errors that skip a batch, given likewise. Skipped batches are
        counted in `graph_opt.metrics(session)`.
      use_stage_subgraph_thread_pool: Whether the stage's kernels run on a separate thread pool.
      stage_subgraph_thread_pool_id: 0-based index into the session config's
        `session_stage_subgraph_thread_pool`.
      stage_subgraph_stream_id: DeepRec's GPU stream of the stage; it has no effect here.
      name: Name of the stage and scope of its nodes; 'staged' if None.
      prefetch_priority: How far the stage's threads lower their priority while its buffer holds an
        element: 0 not at all, 1 to 19 by that nice value, 20 below all other threads. With -1, its
        kernels run on the main graph's threads; with a separate pool, always on that pool's. In a
        gRPC session they always run on the server's session threads.
      unordered: Whether several threads may draw at the same time, so that batches may overtake
        each other.
      autotune_memory_mb: Megabytes that the batches of the stage may take where `capacity` or
        `num_threads` is tuned.

    Returns:
      The structure of `features`, with the same dtypes and static shapes.

    Raises:
      tf.errors.InvalidArgumentError: an option is out of range, `features` contains no tensor,
        or a variable or resource, or `feed_dict` cannot be fed.

    Example:
      >>> images, labels = graph_opt.staged(iterator.get_next(), capacity=4, num_threads=2)
    """
    spec = _checked_spec(
        "staged",
        capacity=capacity,
        num_threads=num_threads,
        num_clients=num_clients,
        timeout_millis=timeout_millis,
        use_stage_subgraph_thread_pool=use_stage_subgraph_thread_pool,
        stage_subgraph_thread_pool_id=stage_subgraph_thread_pool_id,
        stage_subgraph_stream_id=stage_subgraph_stream_id,
        prefetch_priority=prefetch_priority,
        unordered=unordered,
        autotune_memory_mb=autotune_memory_mb,
    )
    outcomes = _Outcomes(closed_exception_types, ignored_exception_types)
    return _build_stage("staged", [features], spec, feed_dict, outcomes, name)


def prefetch_join(
    thread_to_features: Sequence[Any],
    feed_dict: Optional[Mapping[Any, Any]] = None,
    capacity: int = 1,
    num_clients: int = 1,
    timeout_millis: int = DEFAULT_TIMEOUT_MILLIS,
    closed_exception_types: Any = (tf.errors.OutOfRangeError,),
    ignored_exception_types: Any = (),
    use_stage_subgraph_thread_pool: bool = False,
    stage_subgraph_thread_pool_id: int = 0,
    stage_subgraph_stream_id: int = 0,
    name: Optional[str] = None,
    prefetch_priority: int = DEFAULT_PRIORITY,
    autotune_memory_mb: int = DEFAULT_AUTOTUNE_MEMORY_MB,
) -> Any:
    """Fills one buffer from several threads, each of which computes its own features.

    It is to `staged` what `tf.train.batch_join` is to `tf.train.batch`: thread i runs what
    `thread_to_features[i]` depends on. The batches of a thread keep their order; those of different
    threads come as they are ready. A thread ends with its input; the last one closes the buffer.

    Args:
      thread_to_features: Features of each thread, all of the same structure and dtypes.
      feed_dict: Placeholders that the threads feed, as in `staged`; each thread feeds all of them.
      capacity: As in `staged`, like all that follow.
      num_clients: See `staged`.
      timeout_millis: See `staged`.
      closed_exception_types: See `staged`.
      ignored_exception_types: See `staged`.
      use_stage_subgraph_thread_pool: See `staged`.
      stage_subgraph_thread_pool_id: See `staged`.
      stage_subgraph_stream_id: See `staged`.
      name: Name of the stage and scope of its nodes; 'prefetch_join' if None.
      prefetch_priority: See `staged`.
      autotune_memory_mb: See `staged`.

    Returns:
      The structure of one thread's features, with the static shapes common to all threads.

    Raises:
      tf.errors.InvalidArgumentError: as `staged`, and where the threads' features differ.

    Example:
      >>> batch = graph_opt.prefetch_join([clicks.get_next(), views.get_next()], capacity=4)
    """
    if not isinstance(thread_to_features, (list, tuple)) or not thread_to_features:
        _refuse("prefetch_join", "thread_to_features: need a list with the features of each thread")
    spec = _checked_spec(
        "prefetch_join",
        capacity=capacity,
        num_clients=num_clients,
        timeout_millis=timeout_millis,
        use_stage_subgraph_thread_pool=use_stage_subgraph_thread_pool,
        stage_subgraph_thread_pool_id=stage_subgraph_thread_pool_id,
        stage_subgraph_stream_id=stage_subgraph_stream_id,
        prefetch_priority=prefetch_priority,
        autotune_memory_mb=autotune_memory_mb,
    )
    outcomes = _Outcomes(closed_exception_types, ignored_exception_types)
    return _build_stage("prefetch_join", list(thread_to_features), spec, feed_dict, outcomes, name)


def _checked_spec(
    caller: str,
    capacity: int,
    num_clients: int,
    timeout_millis: int,
    use_stage_subgraph_thread_pool: bool,
    stage_subgraph_thread_pool_id: int,
    stage_subgraph_stream_id: int,
    prefetch_priority: int,
    autotune_memory_mb: int,
    num_threads: int = 1,
    unordered: bool = False,
) -> StageSpec:
    """Checks the options; returns the spec, without a name, that they describe."""
    if tf.executing_eagerly():
        _refuse(caller, "needs a graph: call it inside `with tf.Graph().as_default()`")
    _require(caller, "capacity", capacity, 1, tunable=True)
    _require(caller, "num_threads", num_threads, 1, tunable=True)
    _require(caller, "num_clients", num_clients, 1)
    _require(caller, "timeout_millis", timeout_millis, 0)
    _require(caller, "stage_subgraph_thread_pool_id", stage_subgraph_thread_pool_id, 0)
    _require(caller, "stage_subgraph_stream_id", stage_subgraph_stream_id, 0)
    _require(caller, "prefetch_priority", prefetch_priority, MAINS_THREADS, IDLE_PRIORITY)
    _require(caller, "autotune_memory_mb", autotune_memory_mb, 1)
    spec = StageSpec(
        name="",
        kind=KIND_IO,
        timeout_millis=timeout_millis,
        thread_pool=(
            stage_subgraph_thread_pool_id if use_stage_subgraph_thread_pool else NO_THREAD_POOL
        ),
        stream=stage_subgraph_stream_id,
        priority=prefetch_priority,
    ).sized(num_threads, capacity, autotune_memory_mb << 20)
    if autotune_memory_mb != DEFAULT_AUTOTUNE_MEMORY_MB and not spec.tuned:
        warn_once(
            "{}: autotune_memory_mb={} has no effect unless capacity or num_threads is -1".format(
                caller, autotune_memory_mb
            ),
            tf.get_default_graph(),
        )
    return spec._replace(
        capacity=spec.capacity * num_clients,
        ordered=spec.has_several_threads and not unordered,
    )


def _build_stage(
    caller: str,
    features: List[Any],
    spec: StageSpec,
    feed_dict: Optional[Mapping[Any, Any]],
    outcomes: _Outcomes,
    name: Optional[str],
) -> Any:
    _check_structures(features, caller)
    graph = tf.get_default_graph()
    if spec.stream:
        warn_once("stage_subgraph_stream_id has no effect: the ops of a stage run on a CPU", graph)
    load_library()
    with tf.name_scope(name, caller) as scope:
        records = [record.flatten_features(each) for each in features]
        dtypes, shapes = record.common_signature(records)
        closed, closed_types = split_exception_types(outcomes.closed, "closed_exception_types")
        ignored, ignored_types = split_exception_types(outcomes.ignored, "ignored_exception_types")
        feeds = plan_feeds(graph, feed_dict)
        fetched = [graph.get_tensor_by_name(tensor) for tensor in feeds.fetched]
        spec = spec._replace(
            name=scope.rstrip("/"),
            closed_codes=closed,
            ignored_codes=ignored,
            upstream=_names(draws.takes_upstream(fetched)),
        )
        with tf.device(_CPU):
            taken = _take(graph, dtypes, shapes, spec)
            live_graph.add_nodes(graph, control_nodes(spec, taken.device))
            spec, waits_for = _in_order(spec, records[0], feeds, taken)
            for each in records:
                _put(graph, each, dtypes, spec, waits_for)
    export_users_graph(graph)
    python_side = python_spec.PythonSpec(feeds, closed_types, ignored_types)
    python_spec.remember(graph, spec.name, python_side)
    return record.pack_features(features[0], taken.outputs)


def _in_order(
    spec: StageSpec, tensors: List[Any], feeds: FeedPlan, taken: Any
) -> Tuple[StageSpec, List[Any]]:
    """Makes steps take turns drawing if their order matters.

    Returns:
      The spec, ordered only if it must be, and the operations that the put waits for.
    """
    if not spec.ordered:
        return spec, []
    arrival = spec._replace(ordered=False)
    sources = draws.sources_upstream(tensors, feeds.fed)
    if not sources:
        return (spec if feeds.draws else arrival), []
    inside = [source.name for source in sources if live_graph.is_in_control_flow(source)]
    if inside:
        warn_once(
            "stage '{}' has one thread, not num_threads={}: '{}' draws a batch inside a tf.cond or "
            "tf.while_loop, where threads cannot take turns; unordered=True gives it all its "
            "threads".format(
                spec.name, AUTO if THREADS in spec.tuned else spec.threads_num, inside[0]
            )
        )
        return spec.with_one_thread(), []
    return spec, [draws.take_turns(spec, taken.device, tensors, sources)]


def _put(
    graph: Any, tensors: List[Any], dtypes: List[Any], spec: StageSpec, waits_for: List[Any]
) -> None:
    upstream = _names(draws.takes_upstream(tensors))
    upstream += tuple(name for name in spec.upstream if name not in upstream)
    attributes = put_attributes(spec._replace(upstream=upstream))
    attributes["dtypes"] = _type_list(dtypes)
    place = [graph.get_tensor_by_name(place_name(spec) + ":0")] if spec.ordered else []
    with tf.control_dependencies(waits_for):
        graph.create_op(BUFFER_PUT, tensors + place, [], name=BUFFER_PUT, attrs=attributes)


def _take(graph: Any, dtypes: List[Any], shapes: List[Any], spec: StageSpec) -> Any:
    # A slow source is not an error, so only puts have the user's limit.
    attributes = take_attributes(spec._replace(timeout_millis=0))
    attributes["dtypes"] = _type_list(dtypes)
    listed = tf.AttrValue.ListValue(shape=[shape.as_proto() for shape in shapes])
    attributes["shapes"] = tf.AttrValue(list=listed)
    with tf.control_dependencies(None):
        return graph.create_op(BUFFER_TAKE, [], dtypes, name=BUFFER_TAKE, attrs=attributes)


def _names(takes: Sequence[Any]) -> Tuple[str, ...]:
    names = {take.get_attr("shared_name").decode("utf-8") for take in takes}
    return tuple(sorted(names))


def _type_list(dtypes: Sequence[Any]) -> Any:
    types = [dtype.as_datatype_enum for dtype in dtypes]
    return tf.AttrValue(list=tf.AttrValue.ListValue(type=types))


def _require(
    caller: str,
    option: str,
    value: Any,
    least: int,
    most: Optional[int] = None,
    tunable: bool = False,
) -> None:
    is_number = isinstance(value, Integral) and not isinstance(value, bool)
    if is_number and tunable and value == AUTO:
        return
    if not is_number or int(value) < least:
        also = " or -1, to have it tuned" if tunable else ""
        _refuse(caller, "{}={!r}: need an integer >= {}{}".format(option, value, least, also))
    if most is not None and int(value) > most:
        _refuse(caller, "{}={}: need at most {}".format(option, value, most))


def _check_structures(features: List[Any], caller: str) -> None:
    for position, each in enumerate(features[1:], start=1):
        try:
            tf.nest.assert_same_structure(features[0], each, expand_composites=True)
        except (TypeError, ValueError) as error:
            fault = "features of thread {} differ from thread 0: {}".format(position, error)
            _refuse(caller, fault)


def _refuse(caller: str, fault: str) -> NoReturn:
    raise tf.errors.InvalidArgumentError(None, None, "{}: {}".format(caller, fault))
