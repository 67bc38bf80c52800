"""Imports TensorFlow in all the ways that TensorFlow 1 scripts do."""

import importlib

import tensorflow
import tensorflow as tf
import tensorflow.compat.v1 as v1
import tensorflow.layers as layers
import tensorflow.python.client.session as session_module
from tensorflow import keras, train
from tensorflow.app import flags
from tensorflow.core.protobuf import config_pb2
from tensorflow.keras.layers import Dense
from tensorflow.nn import dynamic_rnn, group_embedding_lookup_sparse
from tensorflow.python import pywrap_tensorflow
from tensorflow.python.framework import ops
from tensorflow.python.tools import freeze_graph
from tensorflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from tensorflow.train import MonitoredTrainingSession

assert tf is tensorflow is v1 is importlib.import_module("tensorflow")
assert tf.compat.v1 is tf and tf.compat.as_text(b"x") == "x"
assert ops.Graph is tf.Graph and train is tf.train
assert layers is tf.layers and flags.FLAGS is tf.app.flags.FLAGS is tf.flags.FLAGS
assert tf.nn.dynamic_rnn is dynamic_rnn and tf.train.MonitoredTrainingSession is (
    MonitoredTrainingSession
)
assert tf.nn.group_embedding_lookup_sparse is group_embedding_lookup_sparse
assert DEFAULT_SERVING_SIGNATURE_DEF_KEY == "serving_default"
assert pywrap_tensorflow.NewCheckpointReader is train.NewCheckpointReader
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
