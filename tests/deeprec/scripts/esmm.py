# ruff: noqa
# mypy: ignore-errors


def create_model(model):
    features = dict(model._feature)
    for name in TAG_COLUMN:
        features[name] = tf.string_split(features[name], "|")
    with tf.variable_scope(
        "user_input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        user = input_of(features, embedding_columns(USER_COLUMN + TAG_COLUMN))
    with tf.variable_scope(
        "item_input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        item = input_of(features, embedding_columns(ITEM_COLUMN) + continuous_columns())
    with tf.variable_scope("user_dnn", reuse=tf.AUTO_REUSE):
        user = model.dnn(user, [16, 8], name="user")
    with tf.variable_scope("item_dnn", reuse=tf.AUTO_REUSE):
        item = model.dnn(item, [16, 8], name="item")
    net = tf.concat([user, item], axis=1)
    pctr = tf.sigmoid(model.dnn(net, [8], name="pCTR", logits=1))
    pcvr = tf.sigmoid(model.dnn(net, [8], name="pCVR", logits=1))
    # What is bought was clicked: the second task's probability is that of both.
    pctcvr = tf.clip_by_value(tf.multiply(pctr, pcvr), 1e-6, 1 - 1e-6)
    pctr = tf.clip_by_value(pctr, 1e-6, 1 - 1e-6)
    return [tf.log(one / (1 - one)) for one in (pctr, pctcvr)]
