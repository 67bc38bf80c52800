# ruff: noqa
# mypy: ignore-errors


def create_model(model):
    deep_columns = embedding_columns(CATEGORICAL_COLUMNS)
    wide_columns = continuous_columns() + [
        tf.feature_column.indicator_column(
            tf.feature_column.categorical_column_with_hash_bucket(
                name, hash_bucket_size=HASH_BUCKET_SIZES[name], dtype=tf.string
            )
        )
        for name in CATEGORICAL_COLUMNS
    ]
    with tf.variable_scope("fm_input", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE):
        wide_input = tf.feature_column.input_layer(model._feature, wide_columns)
        fm_cols = {}
        if args.adaptive_emb and not args.tf:
            deep_input = input_of(model._feature, deep_columns)
            fm_input = tf.reshape(deep_input, [-1, len(deep_columns), WIDTH])
        else:
            deep_input = tf.feature_column.input_layer(
                model._feature, deep_columns, cols_to_output_tensors=fm_cols
            )
            fm_input = tf.stack([fm_cols[column] for column in deep_columns], 1)

    # FM second order: square of the sum less sum of the squares
    with tf.variable_scope("fm", reuse=tf.AUTO_REUSE):
        summed = tf.square(tf.reduce_sum(fm_input, axis=1))
        squared = tf.reduce_sum(tf.square(fm_input), axis=1)
        fm_output = 0.5 * tf.subtract(summed, squared)
    dnn_output = model.dnn(deep_input, [32 * SCALE, 16 * SCALE], name="dnn")
    linear_output = model.dnn(wide_input, [8 * SCALE], name="linear_output")
    net = tf.concat([dnn_output, fm_output, linear_output], 1)
    return [model.dnn(net, [16 * SCALE], name="final_dnn", logits=1)]
