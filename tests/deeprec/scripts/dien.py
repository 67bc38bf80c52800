# ruff: noqa
# mypy: ignore-errors
HIDDEN_SIZE = 8


def auxiliary_net(net, stag):
    net = tf.layers.batch_normalization(net, name="bn1" + stag, reuse=tf.AUTO_REUSE)
    net = tf.layers.dense(net, 16, activation=None, name="f1" + stag, reuse=tf.AUTO_REUSE)
    net = tf.nn.sigmoid(net)
    net = tf.layers.dense(net, 2, activation=None, name="f2" + stag, reuse=tf.AUTO_REUSE)
    return tf.nn.softmax(net) + 0.00000001


def auxiliary_loss(h_states, click_seq, noclick_seq, mask, stag):
    mask = tf.cast(mask, tf.float32)
    click_prop = auxiliary_net(tf.concat([h_states, click_seq], -1), stag)[:, :, 0]
    noclick_prop = auxiliary_net(tf.concat([h_states, noclick_seq], -1), stag)[:, :, 0]
    click_loss = -tf.reshape(tf.log(click_prop), [-1, tf.shape(click_seq)[1]]) * mask
    noclick_loss = -tf.reshape(tf.log(1.0 - noclick_prop), [-1, tf.shape(noclick_seq)[1]]) * mask
    return tf.reduce_mean(click_loss + noclick_loss)


def attention(query, facts, mask):
    with tf.variable_scope("attention", reuse=tf.AUTO_REUSE):
        query = tf.layers.dense(query, int(facts.shape[-1]), activation=None, name="f1")
        queries = tf.tile(tf.expand_dims(query, 1), [1, tf.shape(facts)[1], 1])
        din_all = tf.concat([queries, facts, queries - facts, queries * facts], axis=-1)
        net = tf.layers.dense(din_all, 16, activation=tf.nn.sigmoid, name="f1_att")
        net = tf.layers.dense(net, 1, activation=None, name="f2_att")
        scores = tf.reshape(net, [-1, 1, tf.shape(facts)[1]])
        paddings = tf.ones_like(scores) * (-(2**32) + 1)
        scores = tf.nn.softmax(tf.where(tf.expand_dims(mask, 1), scores, paddings))
    return tf.reshape(scores, [-1, tf.shape(facts)[1]])


def history_of(features, names, tables, builder):
    """The rows of a history, [B, T, 2 D], and the lengths."""
    facts = []
    for name, table in zip(names, tables):
        sequence = vocabulary_columns()[name]._get_sparse_tensors(builder).id_tensor
        steps = tf.sparse.reshape(sequence, [-1, 1])
        shape = tf.concat([sequence.dense_shape, [EMBEDDING_DIM]], 0)
        facts.append(tf.reshape(looked_up(table, steps), shape))
    length = fc_utils.sequence_length_from_sparse_tensor(sequence)
    return tf.concat(facts, 2), length


def create_model(model):
    features = dict(model._feature)
    for name in SEQ_COLUMNS + NEG_COLUMNS:
        features[name] = tf.strings.split(features[name], "\x02")
    with tf.variable_scope(
        "input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        uid_emb = tf.feature_column.input_layer(features, [uid_embedding_column()])
        tables = [item_table("item_embedding", 400), item_table("category_embedding", 40)]
        builder = _LazyBuilder(features)
        columns = vocabulary_columns()
        item_emb = tf.concat(
            [
                looked_up(table, columns[name]._get_sparse_tensors(builder).id_tensor)
                for name, table in zip(["ITEM", "CATEGORY"], tables)
            ],
            1,
        )
        item_emb = tf.reshape(item_emb, [-1, 2 * EMBEDDING_DIM])
        his_item_emb, length = history_of(features, SEQ_COLUMNS, tables, builder)
        noclk_his_emb, _ = history_of(features, NEG_COLUMNS, tables, builder)
    his_item_emb = tf.reshape(his_item_emb, [-1, tf.shape(his_item_emb)[1], 2 * EMBEDDING_DIM])
    noclk_his_emb = tf.reshape(noclk_his_emb, tf.shape(his_item_emb))
    mask = tf.sequence_mask(length, tf.shape(his_item_emb)[1])
    item_his_eb_sum = tf.reduce_sum(his_item_emb, 1)

    # RNN layers: interest extraction, then its evolution
    run_output_1, _ = dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(HIDDEN_SIZE),
        inputs=his_item_emb,
        sequence_length=length,
        dtype=tf.float32,
        scope="gru1",
    )
    tf.losses.add_loss(
        auxiliary_loss(
            run_output_1[:, :-1, :],
            his_item_emb[:, 1:, :],
            noclk_his_emb[:, 1:, :],
            mask[:, 1:],
            stag="gru",
        )
    )
    attention_scores = attention(item_emb, run_output_1, mask)
    _, final_state2 = dynamic_rnn(
        VecAttGRUCell(HIDDEN_SIZE),
        inputs=run_output_1,
        att_scores=tf.expand_dims(attention_scores, -1),
        sequence_length=length,
        dtype=tf.float32,
        scope="gru2",
    )
    tf.summary.histogram("GRU2_Final_State", final_state2)
    net = tf.concat(
        [uid_emb, item_emb, item_his_eb_sum, item_emb * item_his_eb_sum, final_state2], 1
    )
    net = tf.layers.batch_normalization(net, name="bn1", training=model.is_training)
    return [model.dnn(net, [16, 8], name="top", logits=1)]
