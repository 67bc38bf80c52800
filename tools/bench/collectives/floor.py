"""The messages of a step by themselves: the needed bytes, in three all-to-alls and an allreduce."""

from __future__ import annotations

from typing import Sequence

import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster
from tools.bench.training.contenders import Contender

EXCHANGE_ALONE = "exchange_alone"
_FLOAT_BYTES = 4


def exchange_alone(sent: Sequence[float], dense: int, ranks: int) -> Contender:
    """A contender whose step sends messages of the same sizes, one after the other.

    Args:
      sent: bytes that each all-to-all sends to other ranks.
      dense: elements that are reduced beside the last one.
      ranks: number of ranks.
    """
    import horovod.tensorflow as hvd

    graph = tf.Graph()
    with graph.as_default():
        gradient = tf.Variable(tf.zeros([dense]), trainable=False)
        reduced = hvd.allreduce(gradient, op=hvd.Sum, name="dense")
        fetched = [reduced.op]
        for number, size in enumerate(sent):
            each = int(size) // _FLOAT_BYTES // max(1, ranks - 1)
            splits = [0 if rank == hvd.rank() else each for rank in range(ranks)]
            # Not a constant, which TensorFlow would send while it folds constants.
            message = tf.Variable(tf.zeros([sum(splits)]), trainable=False)
            with tf.control_dependencies(fetched[1:]):
                received = hvd.alltoall(
                    tf.identity(message), splits, name="message_{}".format(number)
                )
            fetched.append(received[0].op)
        initializer = tf.global_variables_initializer()
    session = tf.Session(graph=graph)
    session.run(initializer)
    return Contender(EXCHANGE_ALONE, Cluster(), session, session.make_callable(fetched))
