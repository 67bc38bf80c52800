# ruff: noqa
# mypy: ignore-errors


def dot_op(features):
    batch_size = tf.shape(features)[0]
    matrixdot = tf.matmul(features, features, transpose_b=True)
    feature_dim = int(matrixdot.shape[-1])
    ones_mat = tf.ones_like(matrixdot)
    lower_tri_mat = ones_mat - tf.linalg.band_part(ones_mat, 0, -1)
    lower_tri_mask = tf.cast(lower_tri_mat, tf.bool)
    result = tf.boolean_mask(matrixdot, lower_tri_mask)
    output_dim = feature_dim * (feature_dim - 1) // 2
    return tf.reshape(result, (batch_size, output_dim))


def create_model(model):
    # Each column's part of the layer, which the interaction takes one by one.
    columns = embedding_columns(CATEGORICAL_COLUMNS)
    cols_to_output_tensors = {}
    with tf.variable_scope(
        "input_layer", partitioner=model._input_partitioner, reuse=tf.AUTO_REUSE
    ):
        dense_inputs = tf.feature_column.input_layer(model._feature, continuous_columns())
        if args.adaptive_emb and not args.tf:
            masks = {}
            for name in CATEGORICAL_COLUMNS:
                masks[name] = tf.ones([args.batch_size], tf.int32)
            tf.feature_column.input_layer(
                model._feature,
                columns,
                cols_to_output_tensors=cols_to_output_tensors,
                adaptive_mask_tensors=masks,
            )
        else:
            tf.feature_column.input_layer(
                model._feature, columns, cols_to_output_tensors=cols_to_output_tensors
            )
        sparse_inputs = [cols_to_output_tensors[column] for column in columns]
    dense_embedding_vec = model.dnn(dense_inputs, [16 * SCALE, WIDTH], name="bottom_mlp")
    if args.interaction_op == "dot":
        features = tf.stack(sparse_inputs + [dense_embedding_vec], axis=1)
        net = tf.concat([dense_embedding_vec, dot_op(features)], 1)
    else:
        net = tf.concat([dense_embedding_vec] + sparse_inputs, 1)
    return [model.dnn(net, [16 * SCALE, 8 * SCALE], name="top_mlp", logits=1)]
