"""Sessions say which servers have the ops of another release, and train without these."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from graph_opt.cli.release import RELEASE
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given
from graph_opt.session.graph_records import report_of
from tests.conftest import MadeOnce
from tests.passes import fused_models as models
from tests.passes.fusion.kinds.test_parameter_servers import train
from tests.passes.fusion.test_fuse_group_embedding import two_safe
from tests.session import other_library
from tests.session.parameter_servers import free_addresses, parameter_servers

pytestmark = pytest.mark.slow
OTHER = "/job:ps/task:1"
DIFFERS = (
    "the ops of graph_opt on {} ({}) differ from those of this process ({}): install one release "
    "in all tasks, and start them again".format(OTHER, other_library.RELEASE, RELEASE)
)


@pytest.fixture(scope="module")
def library(compiled_once: MadeOnce) -> Path:
    return other_library.compiled_library(compiled_once)


@pytest.fixture(scope="module")
def target(library: Path) -> Iterator[Any]:
    """A worker with two servers, the second of which has ops that are defined otherwise."""
    *ps, address = free_addresses(3)
    cluster = {"ps": ps, "worker": [address]}
    other = other_library.loading(library, other_library.other_definitions())
    with parameter_servers(cluster, has_ops=[True, other]):
        server = tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker", task_index=0)
        yield server.target


def test_tables_on_such_a_server_are_looked_up_by_tensorflows_ops(target: str) -> None:
    stock = train(target, two_safe(), servers=2).trained
    forget_warnings()
    for _ in range(2):
        trained = train(target, two_safe(), config=models.config(), servers=2).trained
        np.testing.assert_allclose(trained.losses, stock.losses, rtol=1e-5)
    said = "TensorFlow's ops look up some tables, since " + DIFFERS
    assert warnings_given() == (said,)
    report = report_of(trained.graph)
    assert report is not None
    assert said in report.warnings and len(report.fused) == 1
    codes = {refusal["code"] for one in report.fused_lookups for refusal in one.refusals}
    assert codes == {"server_without_ops"}


def test_it_is_an_error_where_the_ops_are_required(target: str) -> None:
    config = models.config(require_server_ops=True)
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        train(target, two_safe(), config=config, servers=2)
    assert "require_server_ops is set, but " + DIFFERS in str(caught.value)
