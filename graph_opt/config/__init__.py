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
