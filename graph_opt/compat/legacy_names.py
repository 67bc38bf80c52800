"""The places where TF1 code, and TensorFlow itself, look up sessions, configs and other names."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, List, Mapping, NamedTuple

import tensorflow as stock
from tensorflow.python.client import session as session_module
from tensorflow.python.framework import ops
from tensorflow.python.ops import embedding_ops, rnn_cell_impl, variables
from tensorflow.python.training import monitored_session, server_lib
from tensorflow.python.training import training as training_module

from graph_opt.compat import tf

_WRAPPED_NAMES = "_tfmw_attr_map"
# Any non-empty target will do: the config of a server must not have thread pools.
_SERVER_TARGET = "grpc"

# DeepRec's own modules below TensorFlow's.
EMBEDDING_MODULE = "tensorflow.core.framework.embedding"
INCREMENTAL_MODULE = "tensorflow.python.training.incremental_saver"
KAFKA_MODULE = "tensorflow.python.data.experimental.ops.kafka_dataset_ops"
PARQUET_MODULE = "tensorflow.python.data.experimental.ops.parquet_dataset_ops"
DATAFRAME_MODULE = "tensorflow.python.data.experimental.ops.dataframe"
WORK_QUEUE_MODULE = "tensorflow.python.ops.work_queue"
STRATEGY_MODULE = "tensorflow.python.distribute.group_embedding_collective_strategy"


class Replacement(NamedTuple):
    """One attribute that gets another value.

    Attributes:
      owner: A module or class.
      name: Name of the attribute.
      value: The new value.
    """

    owner: Any
    name: str
    value: Any


def remove_name(owner: Any, name: str) -> None:
    """Deletes an attribute of a module or class, if it is there.

    TensorFlow 1 wraps its modules, and deletes names of what is in the wrapping alone.
    """
    if name not in vars(owner):
        return
    delattr(owner, name)
    vars(owner).get(_WRAPPED_NAMES, {}).pop(name, None)
    if name in vars(owner):
        del vars(owner)[name]
    exported = vars(owner).get("__all__", [])
    if name in exported:
        exported.remove(name)


def v1_modules() -> List[Any]:
    """Every module that is TensorFlow's v1 API: `tensorflow.compat.v1` and its other spellings."""
    modules = [
        module
        for name, module in sorted(sys.modules.items())
        if name.split(".")[0] == "tensorflow" and name.endswith(".compat.v1")
    ]
    return _each_once(modules)


def v1_submodules(name: str) -> List[Any]:
    """Every module that is `tf.train`, `tf.nn` or another of the v1 API."""
    return _each_once([getattr(module, name) for module in v1_modules() if hasattr(module, name)])


def api_names(part: str, names: Mapping[str, Any]) -> List[Replacement]:
    """Puts names into the v1 API, and into `tensorflow` those that mean nothing else there.

    These are names that TensorFlow has in neither version, or the same in both.

    Args:
      part: `train`, `nn` or another part of the API; "" for its top.
      names: The new values.
    """
    modules = v1_submodules(part) if part else v1_modules()
    found = [Replacement(module, name, names[name]) for module in modules for name in names]
    top = sys.modules["tensorflow"]
    new = getattr(top, part) if part else top
    if any(new is module for module in modules):
        return found
    old = getattr(tf, part) if part else tf
    same = [name for name in names if _attribute(new, name) is _attribute(old, name)]
    return found + [Replacement(new, name, names[name]) for name in same]


def _attribute(module: Any, name: str) -> Any:
    """None if there is none; TensorFlow 1 gives advice when some names are read as others do."""
    found = vars(module).get(name)
    return getattr(module, name, None) if found is None else found


def experimental_config_modules() -> List[Any]:
    """Every module that is `tf.config.experimental`, of the v1 API or not."""
    configs = [*v1_submodules("config"), sys.modules["tensorflow"].config]
    return _each_once([config.experimental for config in configs])


def lookup_functions(functions: Mapping[str, Any]) -> List[Replacement]:
    """Puts functions where scripts import those of DeepRec's that are in no public module."""
    return [Replacement(embedding_ops, name, value) for name, value in functions.items()]


def contrib_names(contrib: Any, linear: Any) -> List[Replacement]:
    """Adds `tf.contrib` to both APIs, and the class that cells in scripts are made of.

    Args:
      contrib: The module.
      linear: The class `_Linear`, which TensorFlow 1.4 had among its cells.
    """
    modules = _each_once([*v1_modules(), stock])
    added = [Replacement(module, "contrib", contrib) for module in modules]
    return [*added, Replacement(rnn_cell_impl, "_Linear", linear)]


def option_classes(classes: Mapping[str, Any]) -> List[Replacement]:
    """Puts DeepRec's options of variables where scripts that know its sources import them."""
    return [Replacement(variables, name, value) for name, value in classes.items()]


def graph_keys(keys: Mapping[str, str]) -> List[Replacement]:
    """Adds names of collections to `tf.GraphKeys`."""
    return [Replacement(ops.GraphKeys, name, value) for name, value in keys.items()]


def estimator_training(training_session: Any) -> List[Replacement]:
    """Puts the function where `tf.estimator` gets its MonitoredTrainingSession from."""
    return [Replacement(training_module, "MonitoredTrainingSession", training_session)]


def every_session(
    convert: Callable[[Any, str], Any], opened: Callable[[Any, Any], None]
) -> List[Replacement]:
    """Makes every session of the process accept any config, and reports it once it is open.

    This holds for any class, wherever it was imported from: every session is a `BaseSession`.

    Args:
      convert: From a config and a target to a stock ConfigProto or None.
      opened: Called with the new session and the config that it was given.
    """
    init_session = session_module.BaseSession.__init__

    @functools.wraps(init_session)
    def init_and_show(self: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        init_session(self, target, graph, convert(config, target or ""))
        opened(self, config)

    return [Replacement(session_module.BaseSession, "__init__", init_and_show)]


def every_monitored_session(hooks_for: Callable[[Any, Any], Any]) -> List[Replacement]:
    """Gives every monitored session of the process the hooks that `hooks_for` returns.

    Args:
      hooks_for: From a session's hooks and its session creator, each of which may be None, to the
        hooks that it gets.
    """
    init_session = monitored_session._MonitoredSession.__init__

    @functools.wraps(init_session)
    def init_with_hooks(
        self: Any, session_creator: Any, hooks: Any, *arguments: Any, **named: Any
    ) -> None:
        hooked = hooks_for(hooks, session_creator)
        init_session(self, session_creator, hooked, *arguments, **named)

    return [Replacement(monitored_session._MonitoredSession, "__init__", init_with_hooks)]


def every_server(convert: Callable[[Any, str], Any]) -> List[Replacement]:
    """Makes TensorFlow's servers accept every config that `convert` accepts.

    Args:
      convert: From a config and a target to a stock ConfigProto or None.
    """
    make_server_def = server_lib._make_server_def

    @functools.wraps(make_server_def)
    def server_def_of_any_config(
        server_or_cluster_def: Any, job_name: Any, task_index: Any, protocol: Any, config: Any
    ) -> Any:
        stock = convert(config, _SERVER_TARGET)
        return make_server_def(server_or_cluster_def, job_name, task_index, protocol, stock)

    return [Replacement(server_lib, "_make_server_def", server_def_of_any_config)]


def _each_once(modules: List[Any]) -> List[Any]:
    return list({id(module): module for module in modules}.values())
