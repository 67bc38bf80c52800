"""Checkpoints that hold the position of a session's input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graph_opt
from graph_opt.compat import tf
from tests.session.small_model import (
    BATCHES,
    SmallModel,
    async_config,
    initialize,
    row_batches,
    small_model,
)

EPOCHS = 10
WARNING = "is saved as stage 'async_embedding"


def _model_and_saver() -> Any:
    model = small_model(epochs=EPOCHS)
    saveable = tf.data.experimental.make_saveable_from_iterator(model.iterator)
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
    return model, tf.train.Saver()


def _batch(session: Any, model: SmallModel) -> int:
    """Trains a batch; returns which one of its epoch it was."""
    rows, _ = session.run([model.features["row"], model.train_op])
    return row_batches().index(list(rows))


def test_a_restored_input_goes_on_from_its_position_and_from_no_batch_read_before(
    tmp_path: Path,
) -> None:
    model, saver = _model_and_saver()
    with graph_opt.Session(config=async_config(capacity=2)) as session:
        initialize(session, model)
        assert [_batch(session, model) for _ in range(2)] == [0, 1]
        path = saver.save(session, str(tmp_path / "model"))
        after = []
        for _ in range(2):
            saver.restore(session, path)
            after.append([_batch(session, model) for _ in range(3)])
        first = after[0][0]  # Depends on how far the threads had come.
        assert after == [[(first + more) % BATCHES for more in range(3)]] * 2


@pytest.mark.parametrize("ahead", [False, True])
def test_a_line_tells_once_of_a_saved_position_that_stages_have_passed(
    ahead: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model, saver = _model_and_saver()
    config = async_config() if ahead else graph_opt.ConfigProto()
    with graph_opt.Session(config=config) as session:
        initialize(session, model)
        session.run(model.train_op)
        assert WARNING not in capfd.readouterr().err
        for _ in range(2):
            saver.save(session, str(tmp_path / "model"))
    told = capfd.readouterr().err
    assert told.count(WARNING) == int(ahead)
    assert told.count("'{}'".format(model.iterator._iterator_resource.op.name)) == int(ahead)
