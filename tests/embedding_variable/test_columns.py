"""Feature columns over EmbeddingVariables: their tables, and what they give."""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but

FEATURES = {
    "user": [[3], [-5], [3]],
    "word": [[b"a"], [b""], [b"b"]],
    "tag": [[1, -1], [2, 3], [2, -1]],
    "weight": [[1.0, 0.0], [2.0, 1.0], [1.0, 0.0]],
}
OPTION = graph_opt.EmbeddingVariableOption(
    init_option=graph_opt.InitializerOption(tf.random_normal_initializer(seed=1), 7)
)


def features() -> Dict[str, tf.Tensor]:
    ids = {name: tf.constant(values) for name, values in FEATURES.items()}
    ids["user"] = tf.cast(ids["user"], tf.int64)
    return ids


def run(*fetches: Any) -> List[Any]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return list(session.run(fetches))


def row_of(variables: Any, keys: Any) -> tf.Tensor:
    return tf.nn.embedding_lookup(variables, tf.constant(keys, tf.int64))


@pytest.mark.parametrize("parts", [None, 2])
def test_columns_look_their_keys_up(parts: Any) -> None:
    column = graph_opt.categorical_column_with_embedding
    tags = tf.feature_column.weighted_categorical_column(
        column("tag", tf.int32, parts, OPTION), "weight"
    )
    columns = [
        graph_opt.embedding_column(column("user", tf.int64, parts, OPTION), 2, do_fusion=True),
        graph_opt.embedding_column(column("word", partition_num=parts, ev_option=OPTION), 3),
        graph_opt.embedding_column(tags, 4, combiner="sum"),
    ]
    made: Dict[Any, Any] = {}
    layer = tf.feature_column.input_layer(features(), columns, cols_to_vars=made)
    names = [variable.op.name for variables in made.values() for variable in variables]
    of_users = "input_layer/user_embedding/embedding_weights"
    expected = [of_users] if parts is None else [of_users + "/part_0", of_users + "/part_1"]
    assert [name for name in names if "user" in name] == expected
    tables = [tf.get_collection("graph_opt_embedding_variables")[place] for place in range(3)]
    by_name = {table.name.split("/")[1]: table for table in tables}
    hashed = tf.strings.to_hash_bucket_fast(tf.constant(["a", "b"]), 2**63 - 1)
    result, tag_rows, user_rows, word_rows = run(
        layer,
        row_of(by_name["tag_weighted_by_weight_embedding"], [1, 2, 3]),
        row_of(by_name["user_embedding"], [3]),
        tf.nn.embedding_lookup(by_name["word_embedding"], hashed),
    )
    one, two, three = tag_rows
    np.testing.assert_allclose(result[:, :4], [one, 2 * two + three, two], rtol=1e-6)
    np.testing.assert_allclose(result[:, 4:6], [user_rows[0], [0, 0], user_rows[0]], rtol=1e-6)
    np.testing.assert_allclose(result[:, 6:], [word_rows[0], [0] * 3, word_rows[1]], rtol=1e-6)


def test_columns_may_share_a_table() -> None:
    column = graph_opt.categorical_column_with_embedding
    columns = graph_opt.shared_embedding_columns([column("word"), column("other")], 3)
    words = features()["word"]
    layer = tf.feature_column.input_layer({"word": words, "other": words}, columns)
    assert len(tf.trainable_variables()) == 1
    result = run(layer)[0]
    np.testing.assert_array_equal(result[:, :3], result[:, 3:])


@pytest.mark.skipif(
    "use_safe_embedding_lookup"
    not in inspect.signature(tf.feature_column.shared_embedding_columns).parameters,
    reason="lookups of shared columns are always safe in this TensorFlow",
)
@pytest.mark.parametrize("is_safe", [True, False])
def test_shared_columns_take_all_keys_unless_their_lookup_is_safe(is_safe: bool) -> None:
    column = graph_opt.categorical_column_with_embedding("user", tf.int64, ev_option=OPTION)
    (shared,) = graph_opt.shared_embedding_columns([column], 2, use_safe_embedding_lookup=is_safe)
    layer = tf.feature_column.input_layer(features(), [shared])
    (table,) = tf.trainable_variables()
    result, rows = run(layer, row_of(table, [-5]))
    np.testing.assert_array_equal(result[1], [0.0, 0.0] if is_safe else rows[0])


def test_layers_of_keras_have_the_table() -> None:
    column = graph_opt.embedding_column(
        graph_opt.categorical_column_with_embedding("user", tf.int64, 2, OPTION), 2
    )
    steps = graph_opt.embedding_column(
        graph_opt.sequence_categorical_column_with_embedding("tag", tf.int32, None, OPTION), 4
    )
    dense = tf.keras.layers.DenseFeatures([column])
    sequence = tf.keras.experimental.SequenceFeatures([steps])
    rows = dense(features())
    tags = tf.sparse.from_dense(tf.constant(FEATURES["tag"]) + 1)
    of_steps, lengths = sequence({"tag": tags})
    assert [weight.op.name.split("/")[-1] for weight in dense.trainable_weights] == [
        "part_0",
        "part_1",
    ]
    assert len(sequence.trainable_weights) == 1
    result, steps_result, steps_lengths = run(rows, of_steps, lengths)
    assert (result.shape, steps_result.shape, steps_lengths.tolist()) == (
        (3, 2),
        (3, 2, 4),
        [1, 2, 1],
    )
    np.testing.assert_array_equal(result[0], result[2])
    np.testing.assert_array_equal(steps_result[1, 0], steps_result[2, 0])


def test_columns_in_a_group_scope_look_up_alike() -> None:
    with graph_opt.group_embedding_column_scope():
        columns = [
            graph_opt.embedding_column(
                graph_opt.categorical_column_with_embedding("user", tf.int64, None, OPTION), 2
            ),
            graph_opt.embedding_column(
                tf.feature_column.categorical_column_with_identity("tag", 9), 2
            ),
        ]
    layer = tf.feature_column.input_layer(features(), columns)
    assert layer.shape.as_list() == [3, 4]
    assert {variable.op.type for variable in tf.get_collection("embedding_variables")} == {
        "VarHandleOp"
    }


def test_multi_hash_columns() -> None:
    column = graph_opt.categorical_column_with_multihash("user", [5, 5], dtype=tf.int64)
    layer = tf.feature_column.input_layer(features(), [graph_opt.embedding_column(column, (2, 4))])
    assert layer.shape.as_list() == [3, 6]
    assert [variable.op.name for variable in tf.trainable_variables()] == [
        "input_layer/user_embedding/embedding_weights_q",
        "input_layer/user_embedding/embedding_weights_r",
    ]
    wide, other = (graph_opt.embedding_column(column, both) for both in ((2, 4), (3, 3)))
    with tf.variable_scope("wide"):
        tf.feature_column.input_layer(features(), [wide])
    with tf.variable_scope("other"):
        tf.feature_column.input_layer(features(), [other])
    widths = [tf.dimension_value(variable.shape[1]) for variable in tf.trainable_variables()[2:]]
    assert widths == [2, 4, 3, 3]
    column = graph_opt.categorical_column_with_multihash("user", [5, 5], operation="add")
    with pytest.raises(ValueError, match="operation 'add' needs equal ones"):
        graph_opt.embedding_column(column, (2, 4))
    with pytest.raises(ValueError, match="'user' has two tables"):
        graph_opt.shared_embedding_columns([column], 2)


def test_features_of_another_type_are_errors() -> None:
    with pytest.raises(ValueError, match="'user': dtype is float32"):
        graph_opt.categorical_column_with_embedding("user", tf.float32)
    column = graph_opt.embedding_column(graph_opt.categorical_column_with_embedding("user"), 2)
    with pytest.raises(ValueError, match="'user' is of string, but its values are int64"):
        tf.feature_column.input_layer(features(), [column])


def test_adaptive_columns_share_rows_of_rare_ids() -> None:
    column = graph_opt.embedding_column(
        graph_opt.categorical_column_with_adaptive_embedding("user", 1, tf.int64), 2
    )
    mask = tf.constant([0, 1, 1])
    layer = graph_opt.input_layer(features(), [column], adaptive_mask_tensors={"user": mask})
    hashed, of_keys = tf.trainable_variables()
    assert [variable.op.name.split("/")[-1] for variable in (hashed, of_keys)] == [
        "hash_weights",
        "ev_weights",
    ]
    gradients = tf.gradients(tf.reduce_sum(layer), [hashed, of_keys])
    result, shared, by_key = run(layer, hashed, gradients[1].indices)
    np.testing.assert_array_equal(result, np.repeat(shared, 3, axis=0))
    assert by_key.tolist() == [-5, 3]
    with pytest.raises(ValueError, match="'user' needs its mask"):
        graph_opt.input_layer(features(), [column])


def test_columns_of_tensorflow_do_not_make_tables_of_one_row() -> None:
    column = graph_opt.categorical_column_with_embedding("user", tf.int64)
    made = tf.feature_column.embedding_column(column, 2)
    with pytest.raises(ValueError, match="'user' has no number of buckets"):
        tf.feature_column.input_layer(features(), [made])
    with pytest.raises(ValueError, match="'user' has no number of buckets"):
        tf.feature_column.linear_model(features(), [column])


def trained_linear_model(of_keys: bool, parts: Any) -> Any:
    """What a linear model gives before and after a step, and the names of its variables."""
    with tf.Graph().as_default(), graph_opt.install():
        column = tf.feature_column.categorical_column_with_identity
        users, tags = column("user", 9), column("tag", 9)
        if of_keys:
            by_key = tf.feature_column.categorical_column_with_embedding
            users, tags = by_key("user", tf.int64), by_key("tag", tf.int64, parts)
        columns = [users, tf.feature_column.weighted_categorical_column(tags, "weight")]
        ids = features()
        ids["user"] = tf.abs(ids["user"])
        model = tf.feature_column.linear_model(ids, columns, units=2)
        loss = tf.reduce_sum(model * tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = session.run(model), session.run(train), session.run(model)
        return found[0], found[2], [one.op.name for one in tf.trainable_variables()]


@pytest.mark.parametrize("parts", slow_but([None, 2], 2))
def test_a_linear_model_has_weights_by_key(parts: Any) -> None:
    before, after, names = trained_linear_model(True, parts)
    expected_before, expected_after, expected_names = trained_linear_model(False, None)
    np.testing.assert_array_equal(before, expected_before)
    np.testing.assert_allclose(after, expected_after, rtol=1e-6)
    if parts is None:
        assert names == expected_names
    else:
        assert "linear_model/tag_weighted_by_weight/weights/part_1" in names


def test_columns_without_weights_by_key_are_refused_in_linear_models() -> None:
    with graph_opt.install():
        multihash = tf.feature_column.categorical_column_with_multihash("user", [3, 3])
        signed = tf.feature_column.categorical_column_with_hash("user", dtype=tf.int64)
        for column in (multihash, signed):
            with pytest.raises(ValueError, match="'user': linear_model has no weights for it"):
                tf.feature_column.linear_model(features(), [column])
    by_key = graph_opt.categorical_column_with_embedding("user", tf.int64)
    embedding = tf.feature_column.embedding_column(by_key, 2)  # TensorFlow's, of a row
    with graph_opt.install(), pytest.raises(ValueError, match="'user' has no number of buckets"):
        tf.feature_column.linear_model(features(), [embedding])


def test_embeddings_by_key_are_input_of_a_linear_model() -> None:
    with graph_opt.install():
        by_key = tf.feature_column.categorical_column_with_embedding("user", tf.int64)
        multihash = tf.feature_column.categorical_column_with_multihash("tag", [5, 5])
        columns = [
            by_key,
            tf.feature_column.embedding_column(by_key, 2),
            tf.feature_column.embedding_column(multihash, 2),
        ]
        model = tf.feature_column.linear_model(features(), columns)
    names = [one.op.name.split("/", 1)[1] for one in tf.trainable_variables()]
    assert {"user/weights", "user_embedding/weights", "user_embedding/embedding_weights"} < set(
        names
    )
    assert run(model)[0].tolist() == [[0.0], [0.0], [0.0]]


@pytest.mark.parametrize("install", [False, True])
def test_columns_start_as_a_table_of_a_checkpoint(install: bool, tmp_path: Path) -> None:
    partitioner = tf.fixed_size_partitioner(2)
    with tf.Graph().as_default():
        table = graph_opt.get_embedding_variable("users", 2, partitioner=partitioner)
        rows = row_of(table, [3])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            expected = session.run(rows)[0]
            tf.train.Saver().save(session, str(tmp_path / "model"))
    with graph_opt.install() if install else contextlib.nullcontext():
        column = graph_opt.embedding_column(
            graph_opt.categorical_column_with_embedding("user", tf.int64),
            2,
            ckpt_to_load_from=str(tmp_path),
            tensor_name_in_ckpt="users",
        )
        layer = tf.feature_column.input_layer(features(), [column])
    np.testing.assert_array_equal(run(layer)[0][0], expected)
