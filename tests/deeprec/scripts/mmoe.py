# ruff: noqa
# mypy: ignore-errors

NUM_EXPERTS = 3
TASKS = ["ctr", "cvr"]


def create_model(model):
    features = with_split_tags(model._feature)
    columns = embedding_columns(CATEGORICAL_COLUMNS) + continuous_columns()
    with tf.variable_scope(
        "input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        net = input_of(features, columns)
        net = tf.layers.batch_normalization(net, training=model.is_training, trainable=True)
    experts = [
        model.dnn(net, [16 * SCALE, 8 * SCALE], name="expert_%d" % i) for i in range(NUM_EXPERTS)
    ]
    experts = tf.stack(experts, axis=1)
    logits = []
    for task in TASKS:
        gate = tf.layers.dense(
            net, units=NUM_EXPERTS, activation=tf.nn.softmax, name="%s_gate" % task
        )
        task_input = tf.reduce_sum(experts * tf.expand_dims(gate, -1), axis=1)
        logits.append(model.dnn(task_input, [8 * SCALE], name="%s_tower" % task, logits=1))
    return logits
