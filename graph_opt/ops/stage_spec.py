"""What describes a stage, and how its nodes carry the description.

`StageSpec` is the only description. Nodes carry it as attributes, so that a rewritten GraphDef read
from a file can run without anything else: the put carries all of it, the buffer's other ops their
part. In an exported graph, an `IdentityN` stands in for the stage and carries it, too.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Tuple

from graph_opt.compat import tf

STAND_IN = "IdentityN"
KIND_IO = "io"
KIND_PREFETCH = "prefetch"
KIND_PIPELINE = "pipeline"
NO_THREAD_POOL = -1
# Special priorities of a stage's threads; those in between are added to nice values.
MAINS_THREADS = -1
IDLE_PRIORITY = 20
DEFAULT_PRIORITY = IDLE_PRIORITY
AUTO = -1
"""For `threads_num` and `capacity`: what suits the graph and the machine, found while it runs."""
THREADS, CAPACITY = "threads_num", "capacity"
DEFAULT_TUNING_BYTES = 512 << 20


class StageSpec(NamedTuple):
    """A stage: a buffer and the threads that fill it.

    Attributes:
      name: The stage's name, its buffer's shared name and its nodes' name scope.
      kind: `io` (reads and batches), `prefetch` (runs lookups) or `pipeline` (applies gradients,
        then reads weights).
      capacity: Maximum number of elements in the buffer.
      timeout_millis: Maximum wait of a put and, in a prefetch stage, of a take, in milliseconds; 0
        for no limit.
      threads_num: Number of threads that run this put.
      ordered: Whether each step has a place, so that elements leave in the order of steps.
      thread_pool: 0-based index of the session's stage subgraph thread pool; -1 for none.
      intra_op_threads: Threads of that pool that our own kernels use; 0: those of the session. The
        kernels' nodes have it, the stage's do not.
      closed_codes: TensorFlow error codes that mean the end of input.
      ignored_codes: Error codes that skip a batch.
      upstream: The stages it takes from.
      stream: DeepRec's stream id; no effect on a CPU.
      priority: How much its threads yield while the buffer holds a batch: 0 not at all, 1 to 19 by
        a nice value, 20 to all other threads; -1 runs its ops on the main graph's threads.
      tuned: Which of `THREADS` and `CAPACITY` are found while it runs; they begin as given here.
      tuning_bytes: Bytes that batches of a tuned stage may take.
      exact: Whether main refreshes the rows that were looked up.
    """

    name: str
    kind: str = KIND_IO
    capacity: int = 1
    timeout_millis: int = 0
    threads_num: int = 1
    ordered: bool = False
    thread_pool: int = NO_THREAD_POOL
    intra_op_threads: int = 0
    closed_codes: Tuple[int, ...] = (tf.errors.OUT_OF_RANGE,)
    ignored_codes: Tuple[int, ...] = ()
    upstream: Tuple[str, ...] = ()
    stream: int = 0
    priority: int = DEFAULT_PRIORITY
    tuned: Tuple[str, ...] = ()
    tuning_bytes: int = 0
    exact: bool = False

    def sized(self, threads_num: int, capacity: int, tuning_bytes: int) -> StageSpec:
        """This stage with other numbers, of which each may be `AUTO`.

        Args:
          threads_num: Number of threads.
          capacity: Maximum number of elements in the buffer.
          tuning_bytes: What batches may take where one of these is `AUTO`.

        Example:
          >>> StageSpec("staged").sized(AUTO, 2, 1 << 20).tuned
          ('threads_num',)
        """
        numbers = {THREADS: threads_num, CAPACITY: capacity}
        tuned = tuple(name for name, number in numbers.items() if number == AUTO)
        return self._replace(
            threads_num=1 if THREADS in tuned else threads_num,
            capacity=1 if CAPACITY in tuned else capacity,
            tuned=tuned,
            tuning_bytes=tuning_bytes if tuned else 0,
        )

    def with_one_thread(self) -> StageSpec:
        """This stage with a single thread, which draws in order without taking turns."""
        tuned = tuple(name for name in self.tuned if name != THREADS)
        return self._replace(threads_num=1, ordered=False, tuned=tuned)

    @property
    def has_several_threads(self) -> bool:
        """Whether it has, or may get, more than one thread."""
        return self.threads_num > 1 or THREADS in self.tuned

    @property
    def is_prefetch(self) -> bool:
        """Whether it runs lookups."""
        return self.kind == KIND_PREFETCH

    @property
    def is_pipeline(self) -> bool:
        """Whether it applies the gradients of steps, and reads the weights for later ones."""
        return self.kind == KIND_PIPELINE


class _Coding(NamedTuple):
    """How an attribute stores a field."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_TEXT = _Coding(
    lambda text: tf.AttrValue(s=text.encode("utf-8")), lambda value: value.s.decode("utf-8")
)
_TEXTS = _Coding(
    lambda texts: _TEXT.write(",".join(texts)),
    lambda value: tuple(text for text in _TEXT.read(value).split(",") if text),
)
_INTEGER = _Coding(lambda number: tf.AttrValue(i=number), lambda value: int(value.i))
_INTEGERS = _Coding(
    lambda numbers: tf.AttrValue(list=tf.AttrValue.ListValue(i=list(numbers))),
    lambda value: tuple(value.list.i),
)
_FLAG = _Coding(lambda flag: tf.AttrValue(i=int(flag)), lambda value: value.i > 0)
_Attributes = Dict[str, Tuple[str, _Coding]]

EXCHANGE_MARK = "_stage_exchange"
# On nodes before which smart stages end; not part of a stage.
TARGET_MARK = "_smart_stage_target"
_NAME = "_stage_name"
_CAPACITY = "_stage_capacity"
# Fields that TensorFlow's runtime does not know, so that any node may carry them.
_MARKS: _Attributes = {
    "name": (_NAME, _TEXT),
    "kind": ("_stage_kind", _TEXT),
    "threads_num": ("_stage_threads", _INTEGER),
    "thread_pool": ("_stage_thread_pool", _INTEGER),
    "closed_codes": ("_stage_closed_codes", _INTEGERS),
    "ignored_codes": ("_stage_ignored_codes", _INTEGERS),
    "stream": ("_stage_stream", _INTEGER),
    "priority": ("_stage_priority", _INTEGER),
    "tuned": ("_stage_tuned", _TEXTS),
    "tuning_bytes": ("_stage_tuning_bytes", _INTEGER),
    "exact": ("_stage_exact", _FLAG),
}
_BUFFER: _Attributes = {
    "name": ("shared_name", _TEXT),
    "capacity": ("shared_capacity", _INTEGER),
}
_TIMEOUT: _Attributes = {"timeout_millis": ("timeout_millis", _INTEGER)}
_PUT: _Attributes = {
    **_MARKS,
    **_TIMEOUT,
    "capacity": _BUFFER["capacity"],
    "upstream": ("_stage_upstream", _TEXTS),
    "ordered": ("num_places", _FLAG),
}
# The exported graph contains neither the stages it took from nor the turns.
_STAND_IN: _Attributes = {
    **_MARKS,
    "capacity": (_CAPACITY, _INTEGER),
    "timeout_millis": ("_stage_timeout_millis", _INTEGER),
}


def buffer_attributes(spec: StageSpec) -> Dict[str, Any]:
    """AttrValues that name the buffer; every op of the buffer carries the same."""
    return {"container": _TEXT.write(""), **_written(spec, _BUFFER)}


def take_attributes(spec: StageSpec) -> Dict[str, Any]:
    """AttrValues of a `TensorBufferTake`, without those of the record."""
    return {**buffer_attributes(spec), **_written(spec, _TIMEOUT)}


def put_attributes(spec: StageSpec) -> Dict[str, Any]:
    """AttrValues of a `TensorBufferPut` that a stage's threads run, without those of the record."""
    return {**buffer_attributes(spec), **_written(spec, _PUT)}


def unstaged_put_attributes(spec: StageSpec) -> Dict[str, Any]:
    """AttrValues of a `TensorBufferPut` that main runs, without those of the record."""
    return {**buffer_attributes(spec), **_written(spec, _TIMEOUT)}


def gradients_of(spec: StageSpec) -> StageSpec:
    """The buffer from which a `pipeline` stage takes what main puts there."""
    return spec._replace(name=spec.name + "/gradients")


def turns_of(spec: StageSpec) -> StageSpec:
    """The buffer with which the steps of a `pipeline` stage pass the turn on to each other."""
    return spec._replace(name=spec.name + "/turn", capacity=1)


def stand_in_attributes(spec: StageSpec) -> Dict[str, Any]:
    """AttrValues of a node that stands in for a stage."""
    # The exported graph has no turns: a single thread keeps the order of the sources.
    return _written(spec.with_one_thread() if spec.ordered else spec, _STAND_IN)


def exchange_mark(spec: StageSpec) -> Dict[str, Any]:
    """AttrValues of the node that returns what ranks agree on in place of the stage's batch."""
    return {EXCHANGE_MARK: _TEXT.write(spec.name)}


def has_spec(node: Any) -> bool:
    """Whether a NodeDef is the put of a stage's threads, or stands in for a stage."""
    return _NAME in node.attr


def is_stand_in(node: Any) -> bool:
    """Whether a NodeDef stands in for a stage."""
    return node.op == STAND_IN and _CAPACITY in node.attr


def spec_of(node: Any) -> StageSpec:
    """The spec in a NodeDef for which `has_spec`; graphs of earlier releases may lack fields.

    Example:
      >>> [spec_of(node).name for node in graph_def.node if has_spec(node)]
      ['staged', 'async_embedding']
    """
    attributes = _STAND_IN if is_stand_in(node) else _PUT
    found = {
        field: coding.read(node.attr[attribute])
        for field, (attribute, coding) in attributes.items()
        if attribute in node.attr
    }
    return StageSpec(**found)


def _written(spec: StageSpec, attributes: _Attributes) -> Dict[str, Any]:
    return {
        attribute: coding.write(getattr(spec, field))
        for field, (attribute, coding) in attributes.items()
    }
