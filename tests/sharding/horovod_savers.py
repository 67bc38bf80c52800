"""What each rank of Horovod saves with a `tf.train.Saver`, and restores; the test reads the files.

Arguments: a folder; who is killed while a checkpoint is written: `nobody`, `reader`, `writer`; and
`mpi` if ranks are not to find a store of their launcher.
"""

from __future__ import annotations

import glob
import os
import signal
import sys
import threading
from typing import Any

import numpy as np

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from graph_opt.table_files import row_blocks
from tests.horovod_processes import GLOO, be_started_by

ROWS = 4001
NOBODY, READER, WRITER = "nobody", "reader", "writer"


def main(folder: str, killed: str, launcher: str = GLOO) -> None:
    """Trains, saves on one rank, restores on one rank, and goes on."""
    tf.disable_v2_behavior()
    hvd = horovod()
    hvd.init()
    be_started_by(launcher)
    sok.init()
    table = sok.Variable(np.zeros([ROWS, 4], np.float32), name="users")
    rows: Any = sok.all2all_dense_embedding(table, tf.range(hvd.rank(), ROWS, hvd.size()))
    step = tf.train.get_or_create_global_step()
    train = tf.train.MomentumOptimizer(1.0, 0.5).minimize(
        -tf.reduce_sum(rows), global_step=step, var_list=[table]
    )
    saver = tf.train.Saver()
    session = tf.Session()  # which nobody closes
    session.run(tf.global_variables_initializer())
    session.run(train)
    if hvd.rank() == 0:
        saver.save(session, os.path.join(folder, "model"), global_step=1)
    session.run(train)
    if killed != NOBODY:
        row_blocks._BLOCK_BYTES = 64
        if hvd.rank() == (killed == READER):
            threading.Thread(target=_kill_when_saving, args=(folder,), daemon=True).start()
        if hvd.rank() == 0:
            saver.save(session, os.path.join(folder, "model"), global_step=2)
        session.run(train)
        return
    if hvd.rank() == 1:
        saver.restore(session, os.path.join(folder, "model-1"))
    session.run(train)
    if hvd.rank() == 0:
        saver.save(session, os.path.join(folder, "model"), global_step=3)
    print("rank {} is done".format(hvd.rank()))


def _kill_when_saving(folder: str) -> None:
    while len(glob.glob(os.path.join(folder, "model-2_temp_*", "*.index"))) < 3:
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
