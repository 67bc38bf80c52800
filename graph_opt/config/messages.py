"""The message classes. `ConfigProto` is used exactly like TensorFlow's.

They are ordinary protobuf message classes: keyword arguments, `CopyFrom`, text format,
`SerializeToString` and pickling work, and enum constants (`OptimizerOptions.ON_1`) are attributes
of the class. `graph_opt.config.schema` lists the fields that they have beyond TensorFlow's.
"""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.config_descriptor import extended_messages
from graph_opt.config.schema import FIELDS

_CLASSES = extended_messages(FIELDS, __name__)

ConfigProto: Any = _CLASSES["ConfigProto"]
GraphOptions: Any = _CLASSES["GraphOptions"]
OptimizerOptions: Any = _CLASSES["OptimizerOptions"]
RunOptions: Any = _CLASSES["RunOptions"]
SmartStageOptionsMessage: Any = _CLASSES["SmartStageOptions"]

# TensorFlow's own classes, even while `install` has given their names to ours.
StockConfigProto: Any = tf.ConfigProto
StockRunOptions: Any = tf.RunOptions
