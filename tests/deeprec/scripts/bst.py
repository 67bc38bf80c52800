# ruff: noqa
# mypy: ignore-errors
MAX_SEQ_LENGTH = 8
NUM_HEADS = 2


def sequence_columns(names):
    columns = []
    for name in names:
        if args.ev and not args.tf:
            column = tf.feature_column.sequence_categorical_column_with_embedding(
                name, dtype=tf.string, ev_option=ev_option()
            )
        else:
            column = tf.feature_column.sequence_categorical_column_with_hash_bucket(
                name, hash_bucket_size=bucket_sizes()[name], dtype=tf.string
            )
        columns.append(tf.feature_column.embedding_column(column, dimension=widths()[name]))
    return columns


def multi_head_attention(queries, mask, width):
    q, k, v = [tf.layers.dense(queries, width, name=name) for name in ("q", "k", "v")]
    q, k, v = [tf.concat(tf.split(x, NUM_HEADS, axis=2), axis=0) for x in (q, k, v)]
    scores = tf.matmul(q, tf.transpose(k, [0, 2, 1])) / (int(k.shape[-1]) ** 0.5)
    key_mask = tf.tile(tf.expand_dims(mask, 1), [NUM_HEADS, tf.shape(scores)[1], 1])
    scores = tf.where(key_mask, scores, tf.ones_like(scores) * (-(2**32) + 1))
    net = tf.matmul(tf.nn.softmax(scores), v)
    return tf.concat(tf.split(net, NUM_HEADS, axis=0), axis=2)


def transformer(net, mask):
    width = int(net.shape[-1])
    positions = tf.get_variable("position_embedding", [MAX_SEQ_LENGTH, width])
    net = net + tf.nn.embedding_lookup(positions, tf.range(tf.shape(net)[1]))
    attended = multi_head_attention(net, mask, width)
    net = tf.contrib.layers.layer_norm(net + attended, begin_norm_axis=-1)
    hidden = tf.layers.dense(net, 4 * width, activation=tf.nn.leaky_relu)
    net = tf.contrib.layers.layer_norm(net + tf.layers.dense(hidden, width), begin_norm_axis=-1)
    return net * tf.expand_dims(tf.cast(mask, tf.float32), -1)


def create_model(model):
    features = dict(model._feature)
    for name in TAG_COLUMN:
        tags = tf.string_split(features[name], "|")
        features[name] = tf.sparse.slice(tags, [0, 0], [tags.dense_shape[0], MAX_SEQ_LENGTH])
    user_columns = embedding_columns(USER_COLUMN)
    item_columns = embedding_columns(ITEM_COLUMN) + continuous_columns()
    with tf.variable_scope(
        "input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        user = input_of(features, user_columns)
        item = input_of(features, item_columns)
        sequences = []
        for columns in sequence_columns(TAG_COLUMN):
            sequences.append(tf.contrib.feature_column.sequence_input_layer(features, [columns]))
    pooled = []
    for i, (net, length) in enumerate(sequences):
        with tf.variable_scope("transformer_%d" % i):
            mask = tf.sequence_mask(length, tf.shape(net)[1])
            pooled.append(tf.reduce_sum(transformer(net, mask), axis=1))
    net = tf.concat([user, item] + pooled, axis=1)
    net = tf.layers.batch_normalization(net, training=model.is_training, trainable=True)
    return [model.dnn(net, [16, 8], name="top", logits=1)]
