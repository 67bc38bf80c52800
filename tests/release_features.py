"""What tests need that not every release of TensorFlow has."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Dict, List

import numpy as np
import pytest
import tensorflow.compat.v1 as tf  # Programs that run without graph_opt read this file, too.

_RELEASE = "TensorFlow " + tf.version.VERSION

HAS_ESTIMATORS = hasattr(tf, "estimator")
needs_estimators = pytest.mark.skipif(not HAS_ESTIMATORS, reason=_RELEASE + " has no Estimators")

# Keras' optimizers of TensorFlow 2.11 and later; those before stay in a module of their own.
HAS_BUILT_OPTIMIZERS = hasattr(tf.keras.optimizers, "legacy")


def reshape_gradient_reads_shape() -> bool:
    """Whether the gradient of a reshape asks for the shape of its input at run time."""
    with tf.Graph().as_default() as graph:
        rows = tf.placeholder(tf.float32, [None, 8])
        tf.gradients(tf.reshape(rows, [-1, 2, 4]), rows)
        names = [operation.name for operation in graph.get_operations()]
    return "gradients/Reshape_grad/Shape" in names


@functools.lru_cache(maxsize=None)
def roots_are_exact() -> bool:
    """Whether square roots of vectors are rounded once; they are refined estimates otherwise."""
    numbers = np.linspace(1, 3, 64, dtype=np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder(tf.float32)
        return np.array_equal(session.run(tf.sqrt(given), {given: numbers}), np.sqrt(numbers))


def keras_optimizers() -> Any:
    """The module of Keras' optimizers that train in graphs."""
    optimizers = tf.keras.optimizers
    return getattr(optimizers, "legacy", optimizers)


# Tests of what some releases lack or do otherwise, by the reason. After "::" comes the beginning of
# a test's name, perhaps with parameters.
_WITH_VERSION_1: Dict[str, List[str]] = {
    "looks up float32 in tables of low precision, which is refused": [
        "rules/gradients/test_rows.py::test_tables_of_low_precision",
        "rules/lookups/test_embedding_lookup_sparse.py::test_rows_of_low_precision_end_with",
        "rules/test_lookup_inputs.py::test_tables_of_low_precision",
        "rules/test_lookup_inputs.py::test_refuses[safe weights of half]",
        "passes/fusion/test_plan.py::test_only_on_servers_do_all_rows_of_an_op_have_one_type",
    ],
    "writes graphs that end in other nodes": [
        "passes/fusion/test_compact_gradients.py::test_what_scales_all_rows_scales_those_that_occur",
        "passes/micro_batches/test_classify.py::test_numbers_are_drawn_once_for_the_whole_batch",
        "passes/pipeline/test_pipeline_dense.py::test_gradients_go_to_a_stage_that_updates_and",
        "rules/optimizers/test_sparse_update.py::test_slots_and_computed_hyperparameters",
    ],
    "crashes where an error's message is no text": [
        "passes/test_parse_examples.py::test_whatever_bytes",
        "passes/test_parse_examples.py::test_unusual_examples[many rows, of which one is cut]",
    ],
    "copies no table for a lookup of rows": [
        "passes/test_protect_gathers.py::test_stock_tensorflow_copies_the_table",
    ],
    "draws other initial values where Keras' session runs later": [
        "session/test_keras_fit.py::test_lookups_of_fit_are_fused",
        "session/test_keras_fit.py::test_weights_that_are_loaded_before_leave_fit",
    ],
    "has one API, its own tf.contrib, and all names in place": [
        "cli/test_script_version.py::test_a_mixture_is_unchanged_and_both_reasons_are_given",
        "cli/test_script_version.py::test_a_module_is_found_with_its_relatives_and_not_imported",
        "cli/test_script_version.py::test_everything_else_leaves_tensorflow_unchanged[eager",
        "cli/test_script_version.py::test_everything_else_leaves_tensorflow_unchanged[metric",
        "cli/test_script_version.py::test_modules_are_found_in_folders_of_folders_without_init",
        "cli/test_script_version.py::test_names_that_only_version_1_has_select_it",
        "cli/test_script_version.py::test_tensorflow_from_a_local_module_is_tensorflow",
        "cli/test_script_version.py::test_the_nearest_local_module_that_says_something_decides",
        "cli/test_versions.py::test_one_line_says_which_tensorflow_is_shown_and_why",
        "contrib/test_contrib.py::test_scripts_import_it_from_where_it_was",
        "deeprec/test_names.py::test_every_name_is_found",
        "session/test_installation.py::test_names_are_found_in_every_spelling_of_the_v1_api",
        "session/test_installation.py::test_estimators_are_imported_by_scripts_that_use_them",
        "session/test_moved_names.py::test_modules_of_the_api_are_those_that_have_the_names",
        "session/test_monitored.py::test_signatures_are_tensorflows",
    ],
    "checks the ids of columns, and lookups wait for that": [
        "rules/test_dense_bags.py::test_columns_make_bags",
        "serving/test_repeated_inputs.py::test_columns_of_any_number_of_values_are_looked_up_once"
        "[names2]",
        "serving/test_repeated_inputs.py::test_columns_of_any_number_of_values_are_looked_up_once"
        "[names3]",
    ],
    "takes a float as a size": [
        "cli/test_python2.py::test_leftovers_are_named[import tensorflow.compat.v1 as tf\\nn = 8",
    ],
    "tells the parts of a table as one weight": [
        "embedding_variable/test_columns.py::test_layers_of_keras_have_the_table",
        "embedding/test_column_scope.py::test_a_layer_of_coalesced_columns_has_their_parts",
    ],
    "runs no eager scripts of later releases": [
        "cli/test_horovod_run.py::test_eager_scripts_run_as_they_are",
    ],
    "has no file system in memory": [
        "sharding/test_table_savers.py::test_what_one_rank_restored_last_is_what_all_ranks_have",
        "sok/test_horovod_ranks.py::test_one_rank_saves_tables_of_keys_wherever_it_does[False]",
    ],
    "has no tf.train.Checkpoint.read": [
        "sharding/test_sharded_variable.py::test_each_rank_reads_the_rows_that_it_wrote",
        "sharding/test_sharded_variable.py::test_rows_of_a_rank_are_not_taken_for_those_of_another",
        "sharding/test_sharded_variable.py::test_one_rank_saves_whole_tables",
    ],
    "estimates roots, so no updates that take roots are merged": [
        "sharding/test_merged_updates.py::test_other_updates_stay_as_the_script_has_them"
        "[with_another_root",
    ],
    "loads SavedModels by its own loader alone": [
        "serving/test_mapped_tables.py::test_tensorflow_2_loads_and_updates_an_export",
    ],
    "saves no models of TensorFlow 2": [
        "serving/test_function_exports.py::test_a_lookup_in_a_conditional_stays_as_it_is",
        "serving/test_function_exports.py::test_a_module_is_served_without_graph_opt",
        "serving/test_function_exports.py::test_predictions_are_those_of_the_model",
        "serving/test_function_exports.py::test_repeated_inputs_of_a_keras_model",
        "serving/test_function_exports.py::test_tables_are_updated_from_another_saved_model",
        "serving/test_function_exports.py::test_tensorflow_2_loads_the_export",
    ],
    "tells kernels no session, so that sessions of one graph share its buffers on a server": [
        "session/test_sessions_on_one_server.py::test_each_takes_its_own_batches[1]",
        "session/test_sessions_on_one_server.py::test_a_later_session_has_nothing_of_one",
    ],
}

_WITHOUT_BUILT_OPTIMIZERS = {
    "has no optimizers of Keras that are built": [
        "distributed_embeddings/test_data_parallel.py::test_a_callback_starts_models_and_optimizers",
        "optimizers/test_dynamic_tables.py::test_averages_of_weights_are_refused",
        "optimizers/test_dynamic_tables.py::test_eager_steps_train_as_tables_of_equal_rows[keras_",
        "sok/test_hashed_optimizers.py::test_rows_that_miss_a_batch_move_as_those_of_a_variable"
        "[keras.",
    ],
}

_WITHOUT_FAST_LOOKUPS = {
    "has no fast shape of sparse lookups": [
        "rules/gradients/test_rows.py::test_a_dense_gradient_of_a_table_is_refused",
        "rules/lookups/test_embedding_lookup_sparse.py::test_fast_and_classic_shapes_are_one_api[fast]",
        "rules/lookups/test_embedding_lookup_sparse.py::test_the_fast_shape_without_unique",
        "rules/lookups/test_functions.py::test_a_fast_sparse_lookup_in_a_function_is_refused",
        "passes/prefetch/test_boundary.py::test_classic_safe_lookup_ships_ids",
        "passes/prefetch/test_boundary.py::test_fast_safe_lookup_ships_raw_ids",
    ],
}

_WITH_IDENTITIES = {
    "ends lookups of rows in an identity": [
        "rules/lookups/test_gather.py::test_a_bare_gather_ends_at_itself[True]",
        "rules/lookups/test_gather.py::test_the_users_identities_are_not_part_of_the_lookup",
        "rules/lookups/test_marked.py::test_a_marked_tensor_names_the_tables_read_upstream[True]",
    ],
}

_WITHOUT_SPARSE_SHAPES = {
    "keeps no static shape of a sparse tensor that is put together again": [
        "runtime/test_staged.py::test_sparse_and_ragged_tensors_come_back_as_such",
    ],
}


# Of Keras; before, a layer computes in the dtype of its weights or its input.
_WITHOUT_POLICIES = {
    "has no layers that compute in the dtype of their policy": [
        "distributed_embeddings/test_embedding.py::test_a_layer_computes_in_the_dtype_of_its_policy",
        "distributed_embeddings/test_layer_surface.py::test_mixed_precision_sends_halves",
    ],
}


def _gathers_end_in_identities() -> bool:
    with tf.Graph().as_default():
        table = tf.get_variable("table", [4, 2], use_resource=True)
        return tf.gather(table, [0]).op.type == "Identity"


def _sparse_tensors_keep_their_shape() -> bool:
    with tf.Graph().as_default():
        sparse = tf.sparse.from_dense([[0, 1]])
        parts = [tf.placeholder(part.dtype) for part in tf.nest.flatten(sparse, True)]
        return tf.nest.pack_sequence_as(sparse, parts, True).shape.is_fully_defined()


@functools.lru_cache(maxsize=None)
def _reasons() -> Dict[str, List[str]]:
    """What this release lacks, and the tests of it."""
    found: Dict[str, List[str]] = {}
    if tf.version.VERSION.startswith("1."):
        found.update(_WITH_VERSION_1)
    if not HAS_BUILT_OPTIMIZERS:
        found.update(_WITHOUT_BUILT_OPTIMIZERS)
    if not hasattr(tf.keras.layers.Layer, "compute_dtype"):
        found.update(_WITHOUT_POLICIES)
    if "allow_fast_lookup" not in inspect.signature(tf.nn.embedding_lookup_sparse).parameters:
        found.update(_WITHOUT_FAST_LOOKUPS)
    if _gathers_end_in_identities():
        found.update(_WITH_IDENTITIES)
    if not _sparse_tensors_keep_their_shape():
        found.update(_WITHOUT_SPARSE_SHAPES)
    return found


def reason_to_skip(test: str) -> str:
    """Why a test does not run with this release; "" if it does.

    Args:
      test: Its id, such as `tests/rules/test_find.py::test_names_do_not_matter`.
    """
    for reason, names in _reasons().items():
        if test.startswith(tuple("tests/" + name for name in names)):
            return "{} {}".format(_RELEASE, reason)
    return ""


def named_tests() -> List[str]:
    """The beginnings of ids in the tables."""
    tables = (
        *(_WITH_VERSION_1, _WITHOUT_BUILT_OPTIMIZERS, _WITHOUT_FAST_LOOKUPS, _WITH_IDENTITIES),
        *(_WITHOUT_SPARSE_SHAPES, _WITHOUT_POLICIES),
    )
    return ["tests/" + name for table in tables for names in table.values() for name in names]
