"""Where TF1 code finds its names, and where TensorFlow itself looks for sessions and configs."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Callable, List, NamedTuple

from tensorflow.python.client import session as session_module
from tensorflow.python.training import evaluation as evaluation_module
from tensorflow.python.training import monitored_session as monitored_session_module
from tensorflow.python.training import server_lib
from tensorflow.python.training import training as training_module

# Any non-empty target: the config of a server must have no thread pools of its own.
_SERVER_TARGET = "grpc"


class Replacement(NamedTuple):
    """One attribute to put another value under.

    Attributes:
      owner: A module or class.
      name: Name of the attribute.
      value: What is to be found there.
    """

    owner: Any
    name: str
    value: Any


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


def estimator_training(training_session: Any) -> List[Replacement]:
    """Puts the function where `tf.estimator` takes its MonitoredTrainingSession from."""
    return [Replacement(training_module, "MonitoredTrainingSession", training_session)]


def estimator_evaluation(session_creator: Any, session: Any) -> List[Replacement]:
    """Puts the classes where `Estimator.evaluate` takes its session from.

    Args:
      session_creator: In place of `ChiefSessionCreator`.
      session: In place of `MonitoredSession`.
    """
    names = types.SimpleNamespace(**vars(monitored_session_module))
    names.ChiefSessionCreator = session_creator
    names.MonitoredSession = session
    return [Replacement(evaluation_module, "monitored_session", names)]


def configs_converted(convert: Callable[[Any, str], Any]) -> List[Replacement]:
    """Makes TensorFlow's own sessions and servers take every config that `convert` takes.

    Args:
      convert: From a config and a target to a stock ConfigProto or None.
    """
    init_session = session_module.BaseSession.__init__
    make_server_def = server_lib._make_server_def

    @functools.wraps(init_session)
    def init_with_any_config(
        self: Any, target: Any = "", graph: Any = None, config: Any = None
    ) -> None:
        init_session(self, target, graph, convert(config, target or ""))

    @functools.wraps(make_server_def)
    def server_def_of_any_config(
        server_or_cluster_def: Any, job_name: Any, task_index: Any, protocol: Any, config: Any
    ) -> Any:
        stock = convert(config, _SERVER_TARGET)
        return make_server_def(server_or_cluster_def, job_name, task_index, protocol, stock)

    return [
        Replacement(session_module.BaseSession, "__init__", init_with_any_config),
        Replacement(server_lib, "_make_server_def", server_def_of_any_config),
    ]


def _each_once(modules: List[Any]) -> List[Any]:
    return list({id(module): module for module in modules}.values())
