"""The message classes. `ConfigProto` is used exactly like TensorFlow's.

They are ordinary protobuf message classes: keyword arguments, `CopyFrom`, text format,
`SerializeToString` and pickling work, and enum constants (`OptimizerOptions.ON_1`) are attributes
of the class. `graph_opt.config.schema` lists the fields that they have beyond TensorFlow's.

Type checkers and editors read `messages.pyi`, which `python -m tools.docs.message_stubs` writes.
"""

from __future__ import annotations

from typing import Any, Union

from graph_opt.compat import tf
from graph_opt.compat.config_descriptor import extended_messages
from graph_opt.config.described import describe
from graph_opt.config.schema import FIELDS

_CLASSES = extended_messages(FIELDS, __name__)
globals().update(_CLASSES)

_DOCS = {
    "ConfigProto": """TensorFlow's `ConfigProto` with the options of DeepRec and of graph_opt.

Example:
  >>> config = graph_opt.ConfigProto(allow_soft_placement=True)
  >>> config.graph_options.optimizer_options.do_group_embedding = True
  >>> session = graph_opt.Session(config=config)
""",
    "GraphOptions": """TensorFlow's `GraphOptions` whose `optimizer_options` are graph_opt's.

Example:
  >>> options = graph_opt.OptimizerOptions(do_group_embedding=True)
  >>> graph_options = graph_opt.GraphOptions(optimizer_options=options)
  >>> config = graph_opt.ConfigProto(graph_options=graph_options)
""",
    "OptimizerOptions": """TensorFlow's `OptimizerOptions` with DeepRec's and graph_opt's passes.

Example:
  >>> options = graph_opt.OptimizerOptions(do_async_embedding=True)
  >>> options.async_embedding_options.threads_num = 1
  >>> options.async_embedding_options.capacity = 2
""",
}
for _name, _class in _CLASSES.items():
    describe(_class, _DOCS.get(_name, "The options of `{}`.".format(_name)))

# TensorFlow's own classes, even while `install` has given their names to ours.
StockConfigProto: Any = tf.ConfigProto
StockRunOptions: Any = tf.RunOptions

_ConfigProto: Any = _CLASSES["ConfigProto"]
SessionConfig = Union[_ConfigProto, StockConfigProto]
"""What functions take as a config: ours, or TensorFlow's."""
