import tensorflow as tf


def lookup(ids: tf.Tensor) -> tf.Tensor:
    table = tf.get_variable("table", [10, 4], initializer=tf.zeros_initializer())
    return tf.nn.embedding_lookup(table, ids)
