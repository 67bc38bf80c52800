"""A program for each rank of Horovod: trains the small model and checks it.

Its argument is a folder that all ranks see.
"""

from __future__ import annotations

import sys

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from graph_opt.sok.communication import transport_in_use
from tests.sharding.transports import check_gradients, check_reductions
from tests.sok.saved_ranks import check_saving
from tests.sok.trained_tables import BATCH, train_part, train_stock

CUTS = [0, 2, BATCH]


def main() -> None:
    """Runs as one of two ranks; an assertion that fails ends both."""
    try:
        sok.init()
    except RuntimeError as error:
        assert "horovod.tensorflow.init()" in str(error)
    horovod().init()
    sok.init()
    parts = train_part(transport_in_use(), "adam", CUTS, steps=20)
    for part, whole in zip(parts, train_stock("adam", steps=20)):
        np.testing.assert_allclose(part.rows, whole[part.keys], rtol=1e-4, atol=1e-5)
    check_communication()
    check_reductions(transport_in_use())
    check_gradients(transport_in_use())
    check_saving(sys.argv[1])
    print("rank {} is done".format(sok.rank()))


def check_communication() -> None:
    """Every function of `sok.communication`, on two ranks."""
    rank = sok.rank()
    with tf.Graph().as_default(), tf.Session() as session:
        reduced, gathered, root, (sent, sizes) = session.run(
            [
                sok.communication.allreduce(tf.constant([1.0, rank]), "average"),
                sok.communication.allgather(tf.constant([rank])),
                sok.communication.broadcast(tf.constant(rank + 5.0), 1),
                sok.communication.alltoall(tf.constant([rank, rank + 10]), [1, 1]),
            ]
        )
    assert list(reduced) == [1.0, 0.5] and list(gathered) == [0, 1] and root == 6.0
    assert list(sent) == [10 * rank, 10 * rank + 1] and list(sizes) == [1, 1]


if __name__ == "__main__":
    main()
