"""DeepRec's `WorkQueue`: works, usually names of files, of which each goes to one worker.

The queue is a list of strings and the number of those taken, in variables of TensorFlow's own on
the first parameter server, so that servers need nothing of graph_opt.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.savers import OptionalSaveable
from graph_opt.compat.shared_resources import register_resource
from graph_opt.input.read_ahead import ReadAhead, add_reader
from graph_opt.reporting.warnings_given import warn_once

_MOST_WORKS = 100000000


class WorkQueue:
    """Shares works out among all workers: each is taken once in an epoch, by whoever asks first.

    A dataset asks when it reads, so that large shuffle buffers make shares unequal: many small
    works and small buffers make them equal.

    The queue is made when a `MonitoredTrainingSession` starts. It is in its checkpoints: training
    goes on with the works that were not taken, unless the script's works are others by then. Those
    that a dataset or a producer had taken ahead of the training, such as a shuffle buffer's, are
    given out again from their beginning: as many as the first step of a graph_opt session found
    taken, for each process; none if the checkpoint was written once the input had ended. A work
    that `take` gave to a step is not given out again, even if its taker died. A graph that is
    imported restores its queue by the saver that it was exported with; one without that has to make
    a new queue.

    Args:
      works: Strings, at least one.
      num_epochs: How often each work is given out; > 0.
      shuffle: Whether each epoch has an order of its own.
      seed: Of the orders; None for that of the graph.
      prefix: What each work begins with when it is taken.
      num_slices: Without effect: files are not cut.
      num_clients: Without effect: any number of workers may take works.
      name: Of the queue, in checkpoints too.
      local_work_mgr: Without effect.

    Raises:
      ValueError: `works` is no list of strings, or empty; `num_epochs` is not above 0, or there are
        more than 100 million works in all epochs; eager execution is on.

    Example:
      >>> queue = WorkQueue(["day_0.csv", "day_1.csv"], num_epochs=2)
      >>> lines = tf.data.TextLineDataset(queue.input_dataset())
    """

    def __init__(
        self,
        works: List[str],
        num_epochs: int = 1,
        shuffle: bool = True,
        seed: Optional[int] = None,
        prefix: Optional[str] = None,
        num_slices: Optional[int] = None,
        num_clients: int = 1,
        name: Optional[str] = None,
        local_work_mgr: Any = None,
    ) -> None:
        _check(works, num_epochs)
        graph = tf.get_default_graph()
        self._name = graph.unique_name(name or "work_queue")
        _say_ignored(
            self._name,
            num_slices=num_slices,
            num_clients=None if num_clients == 1 else num_clients,
            local_work_mgr=local_work_mgr,
        )
        self._prefix = prefix
        self._total = len(works) * num_epochs
        self._names = [tf.compat.as_str(work) for work in works]
        self._digest = ",".join(self._names)
        with tf.name_scope(self._name + "/") as scope:
            self._device = _device_of_state(self._name)
            with tf.device(self._device):
                self._works = _variable(
                    scope + "works", lambda: _all_works(works, num_epochs, shuffle, seed), tf.string
                )
                self._taken = _variable(scope + "taken", lambda: tf.zeros([], tf.int64), tf.int64)
                # Works taken when the session began, those that each reader is ahead, and readers.
                self._ahead = _variable(scope + "ahead", lambda: tf.zeros([3], tf.int64), tf.int64)
                self._register()
        self._is_read_ahead = False

    @property
    def name(self) -> str:
        """Of the queue."""
        return self._name

    def take(self) -> tf.Tensor:
        """The next work, a scalar string.

        Running it raises `tf.errors.OutOfRangeError` where all works of all epochs were taken.
        """
        with tf.name_scope(self._name + "/take/"), tf.device(self._device):
            number = tf.raw_ops.ResourceCountUpTo(
                resource=self._taken.handle, limit=self._total, T=tf.int64
            )
            work = self._works.read_value()[number]  # A gather would look like a lookup.
            return work if self._prefix is None else tf.strings.join([self._prefix, work])

    def input_producer(self) -> Any:
        """A queue of one work [1], which a queue runner fills.

        Returns:
          A `tf.FIFOQueue`, for readers as `tf.TextLineReader`. Queue runners must be started, as
          monitored sessions and Estimators do; else `tf.train.start_queue_runners`.
        """
        self._read_ahead()
        queue = tf.FIFOQueue(1, [tf.string], [[1]], name=self._name + "/producer")
        enqueue = queue.enqueue(tf.reshape(self.take(), [1]))
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
        return queue

    def input_dataset(self) -> Any:
        """The works as a `tf.data.Dataset` of scalar strings, which ends with the last epoch.

        If the queue is on a parameter server, queue runners must be started: see `input_producer`.
        """
        self._read_ahead()
        dataset = tf.data.Dataset.from_tensors(0).repeat().map(self._next_work())
        # Who reads files of one schema can look at one of them before the graph runs.
        dataset.file_names = [tf.compat.as_str(self._prefix or "") + one for one in self._names]
        return dataset

    def _next_work(self) -> Callable[[Any], Any]:
        if not self._is_shared():
            # The function of a dataset can take works itself where they are on its own device.
            return lambda _: self.take()
        queue = self.input_producer()
        return lambda _: tf.reshape(queue.dequeue(), [])

    def _read_ahead(self) -> None:
        """Lets sessions note how many works are taken before they are trained."""
        if self._is_read_ahead or self._works.handle.graph is not tf.get_default_graph():
            return
        self._is_read_ahead = True
        with tf.name_scope(self._name + "/read_ahead/"), tf.device(self._device):
            taken = self._taken.read_value()
            begun, ahead, readers = tf.unstack(self._ahead.read_value())
            left = self._total - taken
            noted = tf.stack([begun, tf.where(readers > 0, ahead, taken - begun), readers + 1])
            first = self._ahead.assign(noted, read_value=False)
            done = tf.where(left > 0, [begun, ahead, readers], tf.stack([taken, 0, 0]))
            end = None if self._is_shared() else self._ahead.assign(done, read_value=False)
        add_reader(ReadAhead(self._name, first, end, left, readers))

    def _is_shared(self) -> bool:
        return tf.DeviceSpec.from_string(self._device).job is not None

    def add_summary(self) -> None:
        """Adds a summary: the share of all works that were taken."""
        with tf.device(self._device):
            taken = tf.cast(self._taken.read_value(), tf.float32)
        tf.summary.scalar(self._name + "/fraction_taken", taken / self._total)

    def _register(self) -> None:
        with tf.control_dependencies([self._works.initializer]):
            create = tf.group(self._taken.initializer, self._ahead.initializer)
        register_resource(self._taken.handle, create, self._taken.is_initialized())
        tensors = {
            self._name + "_works": (self._remaining, tf.string),
            self._name + "_digest": (lambda: tf.constant(self._digest), tf.string),
        }
        node = self._taken.op.name
        saveable = OptionalSaveable(
            self._taken.handle, node, tensors, self._taken.device, self._restore
        )
        tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)

    def _remaining(self) -> tf.Tensor:
        begun, ahead, readers = tf.unstack(self._ahead.read_value())
        trained = tf.maximum(begun, self._taken.read_value() - ahead * readers)
        return self._works.read_value()[trained:]

    def _restore(self, stored: tf.Tensor, digest: tf.Tensor, found: tf.Tensor) -> tf.Operation:
        """Goes on with what a checkpoint has; from the beginning where it has other works."""
        same = tf.logical_and(found, tf.reduce_all(tf.equal(digest, self._digest)))
        left = tf.cond(same, lambda: stored[-self._total :], lambda: self._works.initial_value)
        taken = self._total - tf.size(left, out_type=tf.int64)
        before = tf.fill(tf.reshape(taken, [1]), "")
        works = self._works.assign(tf.concat([before, left], axis=0))
        begun = tf.stack([taken, 0, 0])
        with tf.control_dependencies([works, self._ahead.assign(begun, read_value=False)]):
            return self._taken.assign(taken, read_value=False)


def _check(works: Any, num_epochs: Any) -> None:
    if tf.executing_eagerly():
        raise ValueError("WorkQueue: eager execution is on; build a graph instead")
    if not isinstance(works, (list, tuple)) or not works:
        raise ValueError("WorkQueue: works is {!r}; need a list of strings".format(works))
    for work in works:
        if not isinstance(work, (str, bytes)):
            raise ValueError("WorkQueue: {!r} among works is no string".format(work))
    if num_epochs is None or num_epochs <= 0:
        raise ValueError("WorkQueue: num_epochs is {}; need 1 or more".format(num_epochs))
    if len(works) * num_epochs > _MOST_WORKS:
        raise ValueError(
            "WorkQueue: {} works in {} epochs are more than {}; use fewer epochs".format(
                len(works), num_epochs, _MOST_WORKS
            )
        )


def _all_works(works: List[str], num_epochs: int, shuffle: bool, seed: Optional[int]) -> tf.Tensor:
    """The works of all epochs in the order in which they are taken, [works · epochs]."""
    names = tf.constant(works)
    if not shuffle:
        return tf.tile(names, [num_epochs])
    order = tf.argsort(tf.random.uniform([num_epochs, len(works)], seed=seed), axis=1)
    return tf.reshape(tf.gather(names, order), [-1])


def _variable(name: str, initial: Any, dtype: Any) -> Any:
    """A variable that is saved and initialized with its queue, and not with all others."""
    return tf.Variable(
        initial, trainable=False, collections=[], name=name, dtype=dtype, use_resource=True
    )


def _device_of_state(name: str) -> str:
    """The first parameter server, if variables are on servers; else this process."""
    probe = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name=name, name="place")
    job = tf.DeviceSpec.from_string(probe.device or "").job
    return "/device:CPU:0" if job != "ps" else "/job:ps/task:0/device:CPU:0"


def _say_ignored(name: str, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if value is not None:
            warn_once(
                "WorkQueue {!r}: {} has no effect".format(name, argument), tf.get_default_graph()
            )
