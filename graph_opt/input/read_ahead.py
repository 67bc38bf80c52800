"""Works that readers have taken and training has not seen yet.

A dataset takes works before their batches are trained: a shuffle buffer may hold all of them when
the first step runs. Checkpoints give such works out again. How many they are is known once the
first step has ended, for buffers are full by then and stay so.
"""

from __future__ import annotations

import weakref
from typing import Any, List, MutableMapping, NamedTuple, Optional, Tuple

from graph_opt.compat import tf


class ReadAhead(NamedTuple):
    """A queue that is read ahead of the training.

    Attributes:
      name: Of the queue.
      note_first_step: Run when the first training step of a process has ended.
      note_end: Run when its training has come to the end of the input; None for a queue that other
        processes read, too, since their last batches may be under way.
      left: Number of works that were not taken.
      readers: Number of processes that have trained on works since the queue was made or restored.
    """

    name: str
    note_first_step: tf.Operation
    note_end: Optional[tf.Operation]
    left: tf.Tensor
    readers: tf.Tensor


_readers: MutableMapping[Any, List[ReadAhead]] = weakref.WeakKeyDictionary()


def add_reader(reader: ReadAhead) -> None:
    """Notes that the graph of a queue reads it ahead."""
    _readers.setdefault(reader.left.graph, []).append(reader)


def readers_of(graph: Any) -> Tuple[ReadAhead, ...]:
    """The queues that a graph reads ahead."""
    return tuple(_readers.get(graph, ())) if _readers else ()
