"""What each rank of Horovod saves of a table with a hash table, and restores; a test reads a file.

Arguments: a folder that all ranks see, and another that rank 0 saves into and restores from first.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod

KEYS = np.arange(40, dtype=np.int64) * 3 - 50


def main(folder: str, first_folder: str) -> None:
    """Trains, saves on one rank, restores on one rank, and goes on."""
    tf.disable_v2_behavior()
    hvd = horovod()
    hvd.init()
    sok.Init(global_batch_size=len(KEYS))
    layer = sok.All2AllDenseEmbedding(
        30, 4, 1, 1, dynamic_input=True, embedding_initializer="zeros"
    )
    table = layer.embedding_variable
    rows: Any = layer(tf.constant(KEYS[hvd.rank() :: hvd.size()]))
    train = tf.train.MomentumOptimizer(1.0, 0.5).minimize(-tf.reduce_sum(rows), var_list=[table])
    saver = tf.train.Saver()
    exported = sok.export(table)
    session = tf.Session()  # which nobody closes
    session.run(tf.global_variables_initializer())
    session.run(train)
    before = session.run(exported)
    assert len(before[0]) == len(KEYS) // 2 and (before[1] == 1.0).all()
    first = os.path.join(first_folder, "first")
    if hvd.rank() == 0:
        saver.save(session, first)
    session.run(train)
    assert (session.run(exported)[1] == 2.5).all()
    if hvd.rank() == 0:
        saver.restore(session, first)
    looked_up = session.run(rows)
    assert (looked_up == 1.0).all(), looked_up
    session.run(train)
    if hvd.rank() == 0:
        saver.save(session, os.path.join(folder, "model"))
    print("rank {} is done".format(hvd.rank()))


if __name__ == "__main__":
    main(*sys.argv[1:])
