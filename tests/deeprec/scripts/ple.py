# ruff: noqa
# mypy: ignore-errors
TASKS = ["ctr", "cvr"]
NUM_LEVELS = 2
NUM_EXPERTS = 2


def experts_of(model, net, name):
    return [model.dnn(net, [16, 8], name="%s_expert_%d" % (name, i)) for i in range(NUM_EXPERTS)]


def gated(net, experts, name):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        gate = tf.layers.dense(net, units=len(experts), activation=None, use_bias=False)
        gate = tf.expand_dims(tf.nn.softmax(gate, axis=1), -1)
    return tf.reduce_sum(tf.multiply(tf.stack(experts, axis=1), gate), axis=1)


def create_model(model):
    features = dict(model._feature)
    for name in TAG_COLUMN:
        features[name] = tf.string_split(features[name], "|")
    with tf.variable_scope(
        "input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        net = input_of(features, embedding_columns(CATEGORICAL_COLUMNS) + continuous_columns())
    inputs = {name: net for name in TASKS + ["shared"]}
    for level in range(NUM_LEVELS):
        scope = "level_%d" % level
        with tf.variable_scope(scope):
            experts = {name: experts_of(model, inputs[name], name) for name in inputs}
            extracted = {
                name: gated(inputs[name], experts[name] + experts["shared"], name + "_gate")
                for name in TASKS
            }
            if level < NUM_LEVELS - 1:
                all_experts = [one for name in experts for one in experts[name]]
                extracted["shared"] = gated(inputs["shared"], all_experts, "shared_gate")
        inputs = extracted
    return [model.dnn(inputs[name], [8], name="%s_tower" % name, logits=1) for name in TASKS]
