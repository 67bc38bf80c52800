"""How many updates weights miss is validated, and said to be without effect where it is."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.config import ConfigProto, to_stock
from graph_opt.config.options import session_options
from graph_opt.config.pipeline_options import PipelineOptions


def config(pipelines: bool, staleness: Optional[int]) -> Any:
    made: Any = ConfigProto()
    optimizer = made.graph_options.optimizer_options
    optimizer.pipeline_dense = pipelines
    if staleness is not None:
        optimizer.dense_staleness = staleness
    return made


@pytest.mark.parametrize("staleness, missed", [(None, 1), (1, 1), (0, 0)])
def test_weights_miss_one_update_or_none(staleness: Optional[int], missed: int) -> None:
    for given in (config(True, staleness), to_stock(config(True, staleness))):
        assert session_options(given).pipeline_dense == PipelineOptions(missed)
    assert session_options(config(False, None)).pipeline_dense is None


@pytest.mark.parametrize("staleness", [-1, 2])
def test_other_numbers_are_errors(staleness: int) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"dense_staleness is -?[12], must"):
        session_options(config(True, staleness))


def test_the_option_alone_warns() -> None:
    assert session_options(config(False, 0)).warnings == ()  # There is none to be missed.
    (warning,) = session_options(config(False, 1)).warnings
    assert "dense_staleness has no effect without pipeline_dense" in warning
