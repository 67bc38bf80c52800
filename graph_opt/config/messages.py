"""The message classes. `ConfigProto` is used exactly as TensorFlow's is.

They are ordinary protobuf message classes: keyword construction, `CopyFrom`, text format,
`SerializeToString` and pickling work; enum constants (`OptimizerOptions.ON_1`) stand on the
class. `graph_opt.config.schema` lists what they have beyond TensorFlow's.
"""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.config_descriptor import extended_messages
from graph_opt.config.schema import FIELDS

_CLASSES = extended_messages(FIELDS)

ConfigProto: Any = _CLASSES["ConfigProto"]
GraphOptions: Any = _CLASSES["GraphOptions"]
OptimizerOptions: Any = _CLASSES["OptimizerOptions"]

# TensorFlow's own class, also while `install` has put ours in the place of its name.
StockConfigProto: Any = tf.ConfigProto
