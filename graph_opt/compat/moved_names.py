"""Private names of TensorFlow 1 that TensorFlow 2.15 has in other modules.

Scripts that have a copy of one of TensorFlow's files (`rnn.py`, an optimizer) import them. Each is
put where it was, and is what TensorFlow 2.15 has; names that are still in place stay as they are.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import tensorflow as stock
from tensorflow.python.ops import rnn_cell_impl

from graph_opt.compat import tf
from graph_opt.compat.legacy_names import Replacement

_ROOT = "tensorflow.python."
_FOLDER = os.path.dirname(stock.__file__)
_API = tf.nn.__name__[: -len("compat.v1.nn")]  # "tensorflow._api.v2."
_CELLS = "keras.layers.legacy_rnn.rnn_cell_impl"
_TENSORS = "convert_{0}to_tensor_or_indexed_slices internal_convert_{0}to_tensor_or_indexed_slices"
# Where names were, where they are, and the names; `old=new` if they are called otherwise.
_MOVED: Mapping[str, Mapping[str, str]] = {
    "data.util.nest": {"data.util.nest": "is_sequence=is_nested"},
    "feature_column.feature_column_v2": {"feature_column.feature_column_v2_types": "FeatureColumn"},
    "framework.graph_util": {"framework.convert_to_constants": "convert_variables_to_constants"},
    "framework.graph_util_impl": {
        "framework.convert_to_constants": "convert_variables_to_constants"
    },
    "framework.ops": {
        "framework.indexed_slices": "IndexedSlices IndexedSlicesValue "
        + " ".join(map(_TENSORS.format, ("", "n_"))),
        "framework.stack": "_default_session_stack default_session",
        "framework.tensor": "Tensor disable_tensor_equality enable_tensor_equality",
        "framework.tensor_conversion": "convert_to_tensor_v2",
        "framework.tensor_conversion_registry": "register_tensor_conversion_function",
    },
    "framework.tensor_util": {"ops.shape_util": "maybe_set_static_shape shape_tensor"},
    "ops.array_ops": {"ops.array_ops_stack": "stack unstack"},
    "ops.control_flow_ops": {
        "ops.cond": "cond cond_for_tf_v2",
        "ops.control_flow_assert": "Assert",
        "ops.control_flow_case": "case case_v2",
        "ops.control_flow_switch_case": "switch_case",
        "ops.while_loop": "while_loop while_loop_v2",
    },
    "ops.functional_ops": {"ops.map_fn": "map_fn"},
    "ops.gradients_util": {"eager.backprop_util": "IsTrainable"},
    "ops.math_ops": {"ops.bincount_ops": "bincount bincount_v1"},
    "ops.nn": {"ops.rnn": "bidirectional_dynamic_rnn dynamic_rnn"},
    "ops.nn_impl": {"ops.nn_impl_distribute": "compute_average_loss scale_regularization_loss"},
    "ops.random_ops": {"ops.random_crop_ops": "random_crop"},
    "ops.rnn_cell_impl": {
        _CELLS: "ASSERT_LIKE_RNNCELL_ERROR_REGEXP "
        "_LSTMStateTuple _RNNCellWrapperV1 _check_rnn_cell_input_dtypes _check_supported_dtypes"
    },
    "ops.variable_scope": {
        "ops.ref_variable": "default_variable_creator",
        "ops.resource_variable_ops": "default_variable_creator_v2",
        "ops.variable_v1": "variable=VariableV1",
    },
    "ops.variables": {
        "ops.ref_variable": "RefVariable default_variable_creator",
        "ops.variable_v1": "VariableV1 is_variable_initialized",
    },
    "pywrap_tensorflow": {"training.py_checkpoint_reader": "NewCheckpointReader"},
    "saved_model.utils_impl": {
        "saved_model.path_helpers": "get_assets_dir get_or_create_assets_dir "
        "get_or_create_variables_dir get_variables_dir get_variables_path"
    },
    "util.nest": {"util.nest": "is_sequence=is_nested"},
}


def _is_missing(module: str) -> bool:
    if module in sys.modules:
        return False
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # Its package is missing, too.
        return True


# Modules of TensorFlow 1.15 that are others in TensorFlow 2.15, less those that are in place, and
# those whose successors are not. `from package import name` asks for the name below the package
# that it got, `trackable` for `training.tracking`.
MOVED_MODULES: Mapping[str, str] = {
    _ROOT + old: _ROOT + new
    for old, new in (
        ("distribute.distribution_strategy_context", "distribute.distribute_lib"),
        ("ops.losses.loss_reduction", "keras.utils.losses_utils"),
        ("ops.rnn_cell_wrapper_impl", "keras.layers.legacy_rnn.rnn_cell_wrapper_impl"),
        ("training.distribution_strategy_context", "distribute.distribute_lib"),
        ("trackable.graph_view", "checkpoint.graph_view"),
        ("trackable.tracking", "trackable.autotrackable"),
        ("trackable.util", "checkpoint.checkpoint"),
        ("training.tracking.graph_view", "checkpoint.graph_view"),
        ("training.tracking.tracking", "trackable.autotrackable"),
        ("training.tracking.util", "checkpoint.checkpoint"),
        ("training.tracking", "trackable"),
    )
    if _is_missing(_ROOT + old) and not _is_missing(_ROOT + new)
}


def moved_names() -> List[Replacement]:
    """Puts names where TensorFlow 1 had them, but for those that are still there."""
    found = list(_named())
    # `from tensorflow.python.ops.rnn_cell import *` gives the second under the first one's name.
    cells = [rnn_cell_impl, *_cells_of_keras()]
    found += [
        Replacement(one, "_like_rnncell", _like_rnncell)
        for one in cells
        if "_like_rnncell" not in vars(one)
    ]
    # The module looks for its names in a package that only later releases of TensorFlow need.
    layers = importlib.import_module(_ROOT + "layers.normalization")
    batch_norm = Replacement(layers, "normalization", tf.layers)  # which loads Keras when asked
    return [*found, batch_norm]


def _cells_of_keras() -> List[ModuleType]:
    try:
        return [importlib.import_module(_ROOT + _CELLS)]
    except ImportError:
        return []  # TensorFlow 1 has no others.


def api_modules() -> Dict[str, str]:
    """What `from tensorflow.nn import ...` and the like lead to, from alias to module.

    TensorFlow loads a second copy of such a module, which lacks the names that were put into the
    first, and takes its place in `tf`.
    """
    found = dict(_modules_in(stock, "tensorflow.", _API))
    found.update(_modules_in(tf, "tensorflow.compat.v1.", _API + "compat.v1."))
    return {alias: name for alias, name in found.items() if alias not in sys.modules}


def parts_of_version_1() -> Dict[str, ModuleType]:
    """Modules that `from tensorflow.nn import ...` gives where `tensorflow` is version 1."""
    found = dict(_modules_in(tf, "tensorflow.", _API + "compat.v1."))
    return {alias: sys.modules[name] for alias, name in found.items() if name in sys.modules}


def _named() -> Iterator[Replacement]:
    for old, places in _MOVED.items():
        owner = importlib.import_module(_ROOT + old)
        for new, names in places.items():
            for name in names.split():
                before, _, after = name.partition("=")
                if before not in vars(owner):
                    module = importlib.import_module(_ROOT + new)
                    yield Replacement(owner, before, getattr(module, after or before))


def _modules_in(api: Any, alias: str, prefix: str) -> Iterator[Tuple[str, str]]:
    """Modules that are attributes of an API, or of those: their aliases and names.

    Folders of TensorFlow's have some of these names, too (`tensorflow.distribute`), and keep them.
    """
    for name, value in sorted(vars(api).items()):
        # To ask a lazy module for its name loads it: Keras takes as long as all of `install`.
        is_module = isinstance(value, ModuleType) and vars(value).get("__name__") == prefix + name
        if is_module and not os.path.isdir(os.path.join(_FOLDER, *(alias + name).split(".")[1:])):
            yield alias + name, prefix + name
            yield from _modules_in(value, alias + name + ".", prefix + name + ".")


def _like_rnncell(cell: Any) -> bool:
    """Whether an object has what a cell needs; `assert_like_rnncell` since TensorFlow 1.9."""
    try:
        rnn_cell_impl.assert_like_rnncell("cell", cell)
    except TypeError:
        return False
    return True
