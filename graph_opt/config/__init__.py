"""Session options: TensorFlow's ConfigProto with DeepRec's and graph_opt's fields added.

Example:
  >>> from graph_opt import config as graph_opt_config
  >>> config = graph_opt_config.ConfigProto(allow_soft_placement=True)
  >>> optimizer_options = config.graph_options.optimizer_options
  >>> optimizer_options.do_async_embedding = True
  >>> optimizer_options.async_embedding_options.threads_num = 1
  >>> optimizer_options.async_embedding_options.capacity = 2
  >>> optimizer_options.async_embedding_options.infer_io_stage = True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graph_opt.config.convert import extend, merge, to_stock
    from graph_opt.config.messages import ConfigProto, GraphOptions, OptimizerOptions
    from graph_opt.config.text import load_config

__all__ = [
    "ConfigProto",
    "GraphOptions",
    "OptimizerOptions",
    "extend",
    "load_config",
    "merge",
    "to_stock",
]

_MODULES = {
    "ConfigProto": "messages",
    "GraphOptions": "messages",
    "OptimizerOptions": "messages",
    "extend": "convert",
    "load_config": "text",
    "merge": "convert",
    "to_stock": "convert",
}


def __getattr__(name: str) -> Any:  # The names of options are there without TensorFlow.
    if name not in _MODULES:
        raise AttributeError("module 'graph_opt.config' has no attribute '{}'".format(name))
    value = getattr(importlib.import_module("graph_opt.config." + _MODULES[name]), name)
    globals()[name] = value
    return value
