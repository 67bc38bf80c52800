# ruff: noqa
# mypy: ignore-errors


def tower(model, features, columns, name):
    with tf.variable_scope(
        name + "_input", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        net = input_of(features, columns)
    with tf.variable_scope(name + "_dnn"):
        net = tf.layers.batch_normalization(net, training=model.is_training, trainable=True)
        net = model.dnn(net, [32 * SCALE, 16 * SCALE], name=name)
    return tf.nn.l2_normalize(net, axis=1)


def create_model(model):
    features = with_split_tags(model._feature)
    user = tower(model, features, embedding_columns(USER_COLUMN + TAG_COLUMN), "user")
    item = tower(model, features, embedding_columns(ITEM_COLUMN) + continuous_columns(), "item")
    cosine = tf.reduce_sum(tf.multiply(user, item), axis=1, keep_dims=True)
    with tf.variable_scope("sim"):
        weight = tf.get_variable("sim_w", [1], initializer=tf.ones_initializer())
        bias = tf.get_variable("sim_b", [1], initializer=tf.zeros_initializer())
    return [tf.abs(weight) * cosine + bias]
