"""`tf.train.Saver` on ranks of Horovod, whose processes end, or are killed while they save."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.horovod_processes import GLOO, MPI, NEEDS_HOROVOD, check_all_done, run_ranks_of
from tests.sharding.horovod_savers import NOBODY, READER, ROWS, WRITER

pytestmark = [NEEDS_HOROVOD, pytest.mark.slow]
_MODULE = "tests.sharding.horovod_savers"


@pytest.mark.parametrize("launcher", [GLOO, MPI])
def test_ranks_serve_until_all_are_done(tmp_path: Path, launcher: str) -> None:
    check_all_done(2, _MODULE, str(tmp_path), NOBODY, launcher)
    for step, value, momentum in ((1, 1.0, -1.0), (3, 2.5, -1.5)):
        reader = tf.train.load_checkpoint(str(tmp_path / "model-{}".format(step)))
        rows = np.full([ROWS, 4], value)
        np.testing.assert_array_equal(reader.get_tensor("users"), rows)
        slot = np.full([ROWS, 4], momentum)
        np.testing.assert_array_equal(reader.get_tensor("users/Momentum"), slot)


@pytest.mark.parametrize("killed", [READER, WRITER])
def test_a_killed_rank_leaves_the_earlier_checkpoint(tmp_path: Path, killed: str) -> None:
    ran = run_ranks_of(2, _MODULE, str(tmp_path), killed)
    assert ran.returncode != 0
    path = tf.train.latest_checkpoint(str(tmp_path))
    assert path is not None and path.endswith("model-1")
    np.testing.assert_array_equal(tf.train.load_variable(path, "users"), np.ones([ROWS, 4]))
    assert not (tmp_path / "model-2.index").exists()
    if killed == READER:
        assert "rank 1" in ran.stdout and "model-2" not in str(list(tmp_path.glob("*temp*")))
