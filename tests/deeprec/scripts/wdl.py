# ruff: noqa
# mypy: ignore-errors


def create_model(model):
    deep_columns = embedding_columns(CATEGORICAL_COLUMNS) + continuous_columns()
    wide_columns = continuous_columns() + [
        tf.feature_column.categorical_column_with_hash_bucket(
            name, hash_bucket_size=HASH_BUCKET_SIZES[name], dtype=tf.string
        )
        for name in CATEGORICAL_COLUMNS
    ]
    # Dnn part
    with tf.variable_scope("dnn"):
        with tf.variable_scope(
            "input_from_feature_columns",
            partitioner=model._input_partitioner,
            reuse=tf.AUTO_REUSE,
        ):
            net = input_of(model._feature, deep_columns)
            model.add_layer_summary(net, "input_from_feature_columns")
        dnn_logits = model.dnn(net, [32 * SCALE, 16 * SCALE], logits=1)

    # linear part
    fusion = {} if args.tf or not args.emb_fusion else {"do_fusion": args.emb_fusion}
    with tf.variable_scope("linear", partitioner=model._dense_partitioner) as scope:
        linear_logits = tf.feature_column.linear_model(
            units=1,
            features=model._feature,
            feature_columns=wide_columns,
            sparse_combiner="sum",
            weight_collections=None,
            trainable=True,
            **fusion,
        )
        model.add_layer_summary(linear_logits, scope.name)
    return [tf.add_n([dnn_logits, linear_logits])]
