"""Arguments that DeepRec gave to TensorFlow's functions are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # A ProfilerHook writes there.
    forget_warnings()
    with graph_opt.install():
        yield


def linear(**arguments: Any) -> np.ndarray:
    column = tf.feature_column.categorical_column_with_identity("c", 9)
    with tf.Graph().as_default(), tf.Session() as session:
        features = {"c": tf.constant([[1, 2], [3, 3]])}
        model = tf.feature_column.linear_model(features, [column], **arguments)
        for variable in tf.trainable_variables():
            rows = np.prod(variable.shape.as_list())
            session.run(variable.assign(np.arange(rows).reshape(variable.shape)))
        found: np.ndarray = session.run(model)
    return found


def test_a_linear_model_is_the_same_with_fusion() -> None:
    np.testing.assert_array_equal(linear(do_fusion=True), linear())
    assert linear(units=2, do_fusion=True).shape == (2, 2)
    assert warnings_given() == ()


def test_shared_columns_are_the_same_with_fusion() -> None:
    columns = [tf.feature_column.categorical_column_with_identity(name, 5) for name in "ab"]
    shared = tf.feature_column.shared_embedding_columns(columns, 2, do_fusion=True)
    ids = {name: tf.constant([[1], [2]]) for name in "ab"}
    assert tf.feature_column.input_layer(ids, shared).shape == (2, 4)
    assert len(tf.trainable_variables()) == 1 and warnings_given() == ()


def optimizer(**arguments: Any) -> Any:
    return tf.train.SyncReplicasOptimizer(tf.train.AdagradOptimizer(0.1), 2, **arguments)


def dataset() -> Any:
    return tf.data.Dataset.range(3)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: optimizer(sparse_accumulator_type="hash"), "sparse_accumulator_type"),
        (
            lambda: tf.SparseConditionalAccumulator(tf.float32, accumulator_type="hash"),
            "accumulator_type",
        ),
        (lambda: tf.train.ProfilerHook(10, use_real_thread_id=True), "use_real_thread_id"),
        (
            lambda: dataset().make_initializable_iterator(force_deactivate_gpu_prefetching=True),
            "force_deactivate_gpu_prefetching",
        ),
        (
            lambda: tf.data.make_initializable_iterator(
                dataset(), force_deactivate_gpu_prefetching=True
            ),
            "force_deactivate_gpu_prefetching",
        ),
    ],
)
def test_an_argument_without_effect_is_told(call: Callable[[], Any], argument: str) -> None:
    assert call() is not None
    (told,) = warnings_given()
    assert told.endswith(": {} has no effect".format(argument))


def test_sums_of_sparse_gradients_that_tensorflow_lacks_are_an_error() -> None:
    optimizer(sparse_reduction_type="MEAN", sparse_accumulator_type="multi_map")
    with pytest.raises(ValueError, match="SyncReplicasOptimizer: sparse_reduction_type is 'CMEAN'"):
        optimizer(sparse_reduction_type="CMEAN")
    assert warnings_given() == ()


def test_what_concerns_increments_is_accepted(tmp_path: Path) -> None:
    tf.get_variable("weight", [], initializer=tf.ones_initializer())
    saver = tf.train.Saver(incremental_save_restore=True, incremental_include_normal_var=True)
    init = tf.global_variables_initializer()
    manager = tf.train.SessionManager()
    with manager.prepare_session("", init, saver, str(tmp_path), incr_saver=None) as session:
        saver.save(session, str(tmp_path / "model"))
    assert tf.train.export_meta_graph(incr_saver_def=None).graph_def.node
    assert warnings_given() == ()
