"""Imports TensorFlow in all the ways that TensorFlow 1 scripts do."""

import importlib

import tensorflow
import tensorflow as tf
import tensorflow.compat.v1 as v1
import tensorflow.python.client.session as session_module
from tensorflow import keras, train
from tensorflow.core.protobuf import config_pb2
from tensorflow.keras.layers import Dense
from tensorflow.python.framework import ops
from tensorflow.python.tools import freeze_graph

assert tf is tensorflow is v1 is importlib.import_module("tensorflow")
assert tf.compat.v1 is tf and tf.compat.as_text(b"x") == "x"
assert ops.Graph is tf.Graph and train is tf.train
assert issubclass(tf.Session, session_module.Session)
assert keras.layers.Dense is Dense and freeze_graph.freeze_graph

assert not tf.executing_eagerly()
variable = tf.get_variable("v", [2])
assert type(variable).__name__ == "RefVariable"
assert isinstance(tf.placeholder(tf.float32, [None, 2]).shape[1], tf.Dimension)
assert isinstance(tf.estimator.Estimator, type)

options = tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0, do_smart_stage=False)
config = tf.ConfigProto(graph_options=tf.GraphOptions(optimizer_options=options))
config.graph_options.optimizer_options.do_async_embedding = False
config.gpu_options.CopyFrom(tf.GPUOptions(allow_growth=True))
for given in (config, config_pb2.ConfigProto(allow_soft_placement=True), None):
    with tf.Session(config=given) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(variable + 1.0).shape == (2,)
print("all imports work")
