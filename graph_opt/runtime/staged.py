"""`staged` and `prefetch_join`: put a bounded buffer behind tensors and read them from it."""

from __future__ import annotations

from numbers import Integral
from typing import Any, List, Mapping, NamedTuple, NoReturn, Optional, Sequence

from graph_opt.compat import live_graph, tf
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops import load_library, stage_nodes
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime import draws, python_facts, record
from graph_opt.runtime.exception_types import split_exception_types
from graph_opt.runtime.feeds import FeedPlan, plan_feeds

DEFAULT_TIMEOUT_MILLIS = 300000
_CPU = "/device:CPU:0"


class StageOptions(NamedTuple):
    """Options of one stage, under the names of `staged`'s parameters."""

    feed_dict: Optional[Mapping[Any, Any]]
    capacity: int
    num_threads: int
    num_clients: int
    timeout_millis: int
    closed_exception_types: Any
    ignored_exception_types: Any
    use_stage_subgraph_thread_pool: bool
    stage_subgraph_thread_pool_id: int
    stage_subgraph_stream_id: int
    prefetch_priority: int
    unordered: bool


class _Order(NamedTuple):
    """How the records of a stage keep their order.

    Attributes:
      threads_num: Threads that fill the buffer.
      place: The tensor that is fed the place of each step; none where the order of arrival will do.
      waits_for: Operations that the put waits for.
    """

    threads_num: int
    place: List[Any]
    waits_for: List[Any]


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
    prefetch_priority: int = stage_nodes.DEFAULT_PRIORITY,
    unordered: bool = False,
) -> Any:
    """Computes `features` ahead of the graph that consumes them.

    What `features` depends on runs in threads of its own, which put each result into a buffer;
    what is returned reads the buffer, in the order in which the batches were drawn from iterators,
    queues, `feed_dict` and the stages before, whatever the number of threads. An error of a step
    takes the place of its batch: it is raised once, and the next step goes on with the batch
    behind. The threads start with the session: add `graph_opt.make_prefetch_hook()` to its hooks,
    or open it with graph_opt's own session classes.

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
      capacity: Elements that the buffer holds for each client.
      num_threads: Threads that fill the buffer. They draw batches one at a time, and do the rest,
        such as parsing, at the same time.
      num_clients: How many consumers take from the buffer at once; it holds
        `capacity * num_clients` elements.
      timeout_millis: Longest time in milliseconds that a thread waits for room in the buffer;
        then DeadlineExceededError takes the place of its batch. 0 is no limit.
      closed_exception_types: Errors that mean the end of input: classes of `tf.errors`, their
        codes, or other exception classes (raised by `feed_dict` or inside `tf.py_func`). Once
        every thread has met one, and the buffer is empty, consumers get OutOfRangeError.
      ignored_exception_types: Errors that skip a batch, given likewise. Skipped batches are
        counted in `graph_opt.metrics(session)`.
      use_stage_subgraph_thread_pool: Whether the stage's kernels run on a pool of their own.
      stage_subgraph_thread_pool_id: 0-based index into the session config's
        `session_stage_subgraph_thread_pool`.
      stage_subgraph_stream_id: DeepRec's GPU stream of the stage; has no effect on a CPU.
      name: Name of the stage and scope of its nodes; 'staged' if None.
      prefetch_priority: How far the stage's threads step back while its buffer holds an element: 0
        not at all, 1 to 19 by that nice value, 20 behind all other threads. -1 runs its kernels on
        the main graph's threads, as a pool of its own does on that pool's.
      unordered: Whether several threads may draw at the same time, and batches overtake each other.

    Returns:
      The structure of `features`, with the dtypes and static shapes it had.

    Raises:
      tf.errors.InvalidArgumentError: an option out of its range, no tensor in `features`, a
        variable or a resource among them, or a `feed_dict` that cannot be fed.

    Example:
      >>> images, labels = graph_opt.staged(iterator.get_next(), capacity=4, num_threads=2)
    """
    options = StageOptions(
        feed_dict=feed_dict,
        capacity=capacity,
        num_threads=num_threads,
        num_clients=num_clients,
        timeout_millis=timeout_millis,
        closed_exception_types=closed_exception_types,
        ignored_exception_types=ignored_exception_types,
        use_stage_subgraph_thread_pool=use_stage_subgraph_thread_pool,
        stage_subgraph_thread_pool_id=stage_subgraph_thread_pool_id,
        stage_subgraph_stream_id=stage_subgraph_stream_id,
        prefetch_priority=prefetch_priority,
        unordered=unordered,
    )
    return _build_stage([features], options, name, "staged")


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
    prefetch_priority: int = stage_nodes.DEFAULT_PRIORITY,
) -> Any:
    """Fills one buffer from several threads that each compute features of their own.

    As `tf.train.batch_join` is to `tf.train.batch`: thread i runs what `thread_to_features[i]`
    depends on. The batches of one thread keep their order; those of different threads come as they
    are ready. A thread that meets the end of its input ends; the buffer closes with the last.

    Args:
      thread_to_features: Features of each thread, all of one structure and of the same dtypes.
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

    Returns:
      The structure of one thread's features, with the static shapes that all threads share.

    Raises:
      tf.errors.InvalidArgumentError: as `staged`, and where the threads' features differ.

    Example:
      >>> batch = graph_opt.prefetch_join([clicks.get_next(), views.get_next()], capacity=4)
    """
    if not isinstance(thread_to_features, (list, tuple)) or not thread_to_features:
        _refuse("prefetch_join", "thread_to_features: need a list with the features of each thread")
    options = StageOptions(
        feed_dict=feed_dict,
        capacity=capacity,
        num_threads=1,
        num_clients=num_clients,
        timeout_millis=timeout_millis,
        closed_exception_types=closed_exception_types,
        ignored_exception_types=ignored_exception_types,
        use_stage_subgraph_thread_pool=use_stage_subgraph_thread_pool,
        stage_subgraph_thread_pool_id=stage_subgraph_thread_pool_id,
        stage_subgraph_stream_id=stage_subgraph_stream_id,
        prefetch_priority=prefetch_priority,
        unordered=False,
    )
    return _build_stage(list(thread_to_features), options, name, "prefetch_join")


def _build_stage(
    features: List[Any], options: StageOptions, name: Optional[str], default_name: str
) -> Any:
    _check_options(options, default_name)
    _check_structures(features, default_name)
    if options.stage_subgraph_stream_id:
        warn_once(
            "stage_subgraph_stream_id has no effect: the ops of a stage run on a CPU",
            tf.get_default_graph(),
        )
    load_library()
    graph = tf.get_default_graph()
    with tf.name_scope(name, default_name) as scope:
        stage = scope.rstrip("/")
        records = [record.flatten_features(each) for each in features]
        dtypes, shapes = record.common_signature(records)
        python_side = _python_facts(graph, options)
        capacity = options.capacity * options.num_clients
        buffer = stage_nodes.BufferFacts(stage, capacity, options.timeout_millis)
        with tf.device(_CPU):
            taken = _take(graph, dtypes, shapes, buffer)
            live_graph.add_nodes(graph, stage_nodes.control_nodes(stage, buffer, taken.device))
            order = _order(records[0], buffer, options, python_side.feeds, taken)
            facts = _stage_facts(graph, stage, options, python_side, order)
            for each in records:
                _put(graph, each, dtypes, buffer, facts, order)
    export_users_graph(graph)
    python_facts.remember(graph, stage, python_side)
    return record.pack_features(features[0], taken.outputs)


def _order(
    tensors: List[Any],
    buffer: stage_nodes.BufferFacts,
    options: StageOptions,
    feeds: FeedPlan,
    taken: Any,
) -> _Order:
    arrival = _Order(options.num_threads, [], [])
    if options.num_threads == 1 or options.unordered:
        return arrival
    sources = draws.sources_upstream(tensors, feeds.fed)
    if not sources and not feeds.draws:
        return arrival
    inside = [source.name for source in sources if live_graph.is_in_control_flow(source)]
    if inside:
        warn_once(
            "stage '{}' has one thread, not num_threads={}: '{}' draws a batch inside a tf.cond or "
            "tf.while_loop, where threads cannot take turns; unordered=True gives it all its "
            "threads".format(buffer.shared_name, options.num_threads, inside[0])
        )
        return arrival._replace(threads_num=1)
    place = taken.graph.get_tensor_by_name(stage_nodes.place_name(buffer.shared_name) + ":0")
    if not sources:
        return _Order(options.num_threads, [place], [])
    turn_end = draws.take_turns(buffer, taken.device, tensors, sources)
    return _Order(options.num_threads, [place], [turn_end])


def _put(
    graph: Any,
    tensors: List[Any],
    dtypes: List[Any],
    buffer: stage_nodes.BufferFacts,
    facts: stage_nodes.StageFacts,
    order: _Order,
) -> None:
    takes = draws.takes_upstream(tensors)
    upstream = ",".join(text for text in (_names(takes), facts.upstream) if text)
    attributes = stage_nodes.waiting_attributes(buffer)
    attributes.update(stage_nodes.put_attributes(facts._replace(upstream=upstream)))
    attributes["dtypes"] = _type_list(dtypes)
    attributes["num_places"] = tf.AttrValue(i=len(order.place))
    with tf.control_dependencies(order.waits_for):
        graph.create_op(
            "TensorBufferPut", tensors + order.place, [], name="TensorBufferPut", attrs=attributes
        )


def _take(graph: Any, dtypes: List[Any], shapes: List[Any], buffer: stage_nodes.BufferFacts) -> Any:
    # A slow source is no fault: only puts have the user's limit.
    attributes = stage_nodes.waiting_attributes(buffer._replace(timeout_millis=0))
    attributes["dtypes"] = _type_list(dtypes)
    listed = tf.AttrValue.ListValue(shape=[shape.as_proto() for shape in shapes])
    attributes["shapes"] = tf.AttrValue(list=listed)
    with tf.control_dependencies(None):
        return graph.create_op(
            "TensorBufferTake", [], dtypes, name="TensorBufferTake", attrs=attributes
        )


def _python_facts(graph: Any, options: StageOptions) -> python_facts.PythonFacts:
    _, closed = split_exception_types(options.closed_exception_types, "closed_exception_types")
    _, ignored = split_exception_types(options.ignored_exception_types, "ignored_exception_types")
    feeds = plan_feeds(graph, options.feed_dict)
    return python_facts.PythonFacts(feeds, closed_types=closed, ignored_types=ignored)


def _stage_facts(
    graph: Any,
    stage: str,
    options: StageOptions,
    python_side: python_facts.PythonFacts,
    order: _Order,
) -> stage_nodes.StageFacts:
    closed, _ = split_exception_types(options.closed_exception_types, "closed_exception_types")
    ignored, _ = split_exception_types(options.ignored_exception_types, "ignored_exception_types")
    pool = stage_nodes.NO_THREAD_POOL
    if options.use_stage_subgraph_thread_pool:
        pool = options.stage_subgraph_thread_pool_id
    fetched = [graph.get_tensor_by_name(name) for name in python_side.feeds.fetched]
    return stage_nodes.StageFacts(
        name=stage,
        kind=stage_nodes.KIND_IO,
        threads_num=order.threads_num,
        thread_pool=pool,
        closed_codes=closed,
        ignored_codes=ignored,
        upstream=_names(draws.takes_upstream(fetched)),
        stream=options.stage_subgraph_stream_id,
        priority=options.prefetch_priority,
    )


def _names(takes: Sequence[Any]) -> str:
    names = {take.get_attr("shared_name").decode("utf-8") for take in takes}
    return ",".join(sorted(names))


def _type_list(dtypes: Sequence[Any]) -> Any:
    types = [dtype.as_datatype_enum for dtype in dtypes]
    return tf.AttrValue(list=tf.AttrValue.ListValue(type=types))


def _check_options(options: StageOptions, caller: str) -> None:
    if tf.executing_eagerly():
        _refuse(caller, "needs a graph: call it inside `with tf.Graph().as_default()`")
    least = {
        "capacity": 1,
        "num_threads": 1,
        "num_clients": 1,
        "timeout_millis": 0,
        "stage_subgraph_thread_pool_id": 0,
        "stage_subgraph_stream_id": 0,
        "prefetch_priority": stage_nodes.MAINS_THREADS,
    }
    for option, bound in least.items():
        value = getattr(options, option)
        if isinstance(value, bool) or not isinstance(value, Integral) or value < bound:
            _refuse(caller, "{}={!r}: need an integer >= {}".format(option, value, bound))
    priority, most = options.prefetch_priority, stage_nodes.IDLE_PRIORITY
    if priority > most:
        _refuse(caller, "prefetch_priority={}: need at most {}".format(priority, most))


def _check_structures(features: List[Any], caller: str) -> None:
    for position, each in enumerate(features[1:], start=1):
        try:
            tf.nest.assert_same_structure(features[0], each, expand_composites=True)
        except (TypeError, ValueError) as error:
            fault = "features of thread {} differ from thread 0: {}".format(position, error)
            _refuse(caller, fault)


def _refuse(caller: str, fault: str) -> NoReturn:
    raise tf.errors.InvalidArgumentError(None, None, "{}: {}".format(caller, fault))
