"""What is written is there as a whole or not at all, whatever ends the writing."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Callable

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.saved_models.files import copy_all_but_graphs
from graph_opt.serving.compared_predictions import compare_predictions
from graph_opt.serving.fused_export import COPYING, FUSING, WRITING
from graph_opt.serving.written_whole import written_whole
from tests.serving.mapped_models import two_tables
from tests.serving.models_to_serve import MODELS, save


def _fill_disk(folder: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as file:
        file.write("x")


def _write_more_than_allowed(folder: Path) -> None:
    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


def _write_where_nobody_may(folder: Path) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "served/variables")


def _be_second(folder: Path) -> None:
    (folder.parent / "served" / "saved_by_another").mkdir(parents=True)


@pytest.mark.parametrize(
    "write, error, message",
    [
        (_fill_disk, tf.errors.ResourceExhaustedError, "served: cannot be written: No space left"),
        (_write_more_than_allowed, tf.errors.ResourceExhaustedError, "File too large"),
        (_write_where_nobody_may, tf.errors.PermissionDeniedError, r"denied \(served/variables\)"),
        (_be_second, tf.errors.AlreadyExistsError, "served: exists already"),
    ],
)
def test_what_the_system_refuses_is_told(
    write: Callable[[Path], None], error: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message), written_whole(str(tmp_path / "served")) as folder:
        write(Path(folder))
    found = [path.name for path in tmp_path.iterdir()]
    assert found == (["served"] if write is _be_second else [])


def test_a_saver_on_a_full_disk_is_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        with written_whole(str(tmp_path / "served")):
            message = "Graph execution error:\n\nmany lines\nserved.x; No space left on device"
            raise tf.errors.ResourceExhaustedError(None, None, message)
    assert caught.value.message == "{}: cannot be written: No space left on device".format(
        tmp_path / "served"
    )


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="model"):
        copy_all_but_graphs(str(tmp_path / "model"), str(tmp_path))


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "served").write_text("")
    with pytest.raises(tf.errors.PermissionDeniedError, match="served/1: cannot be written"):
        with written_whole(str(tmp_path / "served" / "1")):
            pass


def checkpoint_of(folder: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        two_tables()
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(folder / "model.ckpt"))


@pytest.mark.parametrize("options", [{}, {"map_tables": True}, {"table_dtype": "int8"}], ids=str)
@pytest.mark.parametrize("last", [COPYING, FUSING, WRITING])
def test_an_interrupted_export_leaves_nothing(last: str, options: Any, tmp_path: Path) -> None:
    def interrupt(begins: str) -> None:
        (folder,) = (tmp_path / "served").iterdir()
        assert not list(folder.glob("saved_model.*"))  # Until the end it is no SavedModel.
        if begins == last:
            raise KeyboardInterrupt

    save(lambda: two_tables(width=8), tmp_path / "model")
    checkpoint_of(tmp_path / "checkpoint")
    named = {"inputs": {"ids": "ids:0"}, "outputs": {"found": "found:0"}}
    for model, names in (("model", {}), ("checkpoint", named)):
        with pytest.raises(KeyboardInterrupt):
            graph_opt.export_fused(
                str(tmp_path / model),
                str(tmp_path / "served" / "1"),
                watch=interrupt,
                **names,  # type: ignore[arg-type]
                **options,
            )
        assert not list((tmp_path / "served").iterdir())


@pytest.mark.parametrize("map_tables", [False, True])
def test_a_model_that_nobody_may_change_is_exported(map_tables: bool, tmp_path: Path) -> None:
    request = save(MODELS["placeholders"], tmp_path / "model")
    for name in ("assets", "assets.extra"):
        (tmp_path / "model" / name).mkdir()
        (tmp_path / "model" / name / "note.txt").write_text(name)
    folders = [path for path in (tmp_path / "model").rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    served = tmp_path / "served"
    try:
        graph_opt.export_fused(str(tmp_path / "model"), str(served), map_tables=map_tables)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert all(path.stat().st_mode & 0o200 for path in served.rglob("*") if path.is_dir())
    assert (served / "assets" / "note.txt").read_text() == "assets"
    assert (served / "assets.extra" / "note.txt").read_text() == "assets.extra"
    assert compare_predictions(str(served), [request])[0].difference == 0.0


def test_an_export_is_not_written_into_its_model(tmp_path: Path) -> None:
    save(MODELS["placeholders"], tmp_path / "model")
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be a part of it"):
        graph_opt.export_fused(str(tmp_path / "model"), str(tmp_path / "model" / "served"))
    assert not (tmp_path / "model" / "served").exists()
