"""`tf.contrib.util`: tensors as protocol buffers, which clients of TensorFlow Serving send."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.contrib.files import missing_from

constant_value = tf.get_static_value
make_ndarray = tf.make_ndarray
make_tensor_proto = tf.make_tensor_proto

__getattr__ = missing_from(__name__, {"ops_used_by_graph_def": "tf.GraphDef"})
