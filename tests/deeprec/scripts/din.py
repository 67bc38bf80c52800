# ruff: noqa
# mypy: ignore-errors


def attention(query, facts, mask):
    queries = tf.tile(tf.expand_dims(query, 1), [1, tf.shape(facts)[1], 1])
    din_all = tf.concat([queries, facts, queries - facts, queries * facts], axis=-1)
    d_layer = tf.layers.dense(din_all, 8 * SCALE, activation=tf.nn.sigmoid, name="f1_att")
    scores = tf.layers.dense(d_layer, 1, activation=None, name="f2_att")
    paddings = tf.ones_like(scores) * (-(2**32) + 1)
    scores = tf.where(tf.expand_dims(mask, 2), scores, paddings)
    return tf.squeeze(tf.matmul(tf.nn.softmax(scores, 1), facts, transpose_a=True), 1)


def hashed(feature, name):
    return tf.strings.to_hash_bucket_fast(feature, bucket_sizes()[name])


def create_model(model):
    features = with_split_tags(model._feature)
    user_columns = embedding_columns(USER_COLUMN) + continuous_columns()
    with tf.variable_scope(
        "input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        user = input_of(features, user_columns)
        builder = _LazyBuilder(features)
        column = tf.feature_column.categorical_column_with_hash_bucket(
            "tag_category_list", bucket_sizes()["cate_id"]
        )
        history = column._get_sparse_tensors(builder).id_tensor
        length = fc_utils.sequence_length_from_sparse_tensor(history)
        table = item_table("cate_embedding", bucket_sizes()["cate_id"])
        # A bag for each step of a history: [B * T] and back to [B, T, D].
        steps = tf.sparse.reshape(history, [-1, 1])
        facts = tf.reshape(
            looked_up(table, steps),
            tf.concat([history.dense_shape, [EMBEDDING_DIM]], 0),
        )
        query = tf.nn.embedding_lookup(table, hashed(features["cate_id"], "cate_id"))
    with tf.variable_scope("attention"):
        mask = tf.sequence_mask(length, tf.shape(facts)[1])
        pooled = attention(query, facts, mask)
    net = tf.concat([user, query, pooled, query * pooled], axis=1)
    net = tf.layers.batch_normalization(net, name="bn1", training=model.is_training)
    return [model.dnn(net, [16 * SCALE, 8 * SCALE], name="top", logits=1)]
