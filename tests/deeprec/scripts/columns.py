# ruff: noqa
# mypy: ignore-errors


def ev_option():
    if args.tf:
        return None
    """Feature Elimination of EmbeddingVariable Feature"""
    if args.ev_elimination == "gstep":
        evict_opt = tf.GlobalStepEvict(steps_to_live=4000)
    elif args.ev_elimination == "l2":
        evict_opt = tf.L2WeightEvict(l2_weight_threshold=1.0)
    else:
        evict_opt = None
    """Feature Filter of EmbeddingVariable Feature"""
    if args.ev_filter == "cbf":
        filter_option = tf.CBFFilter(
            filter_freq=3,
            max_element_size=2**30,
            false_positive_probability=0.01,
            counter_type=tf.int64,
        )
    elif args.ev_filter == "counter":
        filter_option = tf.CounterFilter(filter_freq=3)
    else:
        filter_option = None
    return tf.EmbeddingVariableOption(evict_option=evict_opt, filter_option=filter_option)


def categorical_column(name):
    column = tf.feature_column.categorical_column_with_hash_bucket(
        name, hash_bucket_size=bucket_sizes()[name], dtype=tf.string
    )
    ev_opt = ev_option()
    if args.tf:
        return column
    if args.ev:
        """Embedding Variable Feature with feature_column API"""
        return tf.feature_column.categorical_column_with_embedding(
            name, dtype=tf.string, ev_option=ev_opt
        )
    if args.adaptive_emb:
        """Adaptive Embedding Feature Part 2 of 2"""
        return tf.feature_column.categorical_column_with_adaptive_embedding(
            name, hash_bucket_size=bucket_sizes()[name], dtype=tf.string, ev_option=ev_opt
        )
    if args.dynamic_ev:
        print("Dynamic-dimension Embedding Variable isn't really enabled in model.")
        sys.exit()
    return column


def embedding_column(name):
    if args.tf or not args.emb_fusion:
        return tf.feature_column.embedding_column(
            categorical_column(name), dimension=widths()[name], combiner="mean"
        )
    """Embedding Fusion Feature"""
    return tf.feature_column.embedding_column(
        categorical_column(name),
        dimension=widths()[name],
        combiner="mean",
        do_fusion=args.emb_fusion,
    )


def embedding_columns(names):
    if args.group_embedding and not args.tf:
        with tf.feature_column.group_embedding_column_scope(name="categorical"):
            return [embedding_column(name) for name in names]
    return [embedding_column(name) for name in names]


def input_of(features, columns):
    if args.adaptive_emb and not args.tf:
        """Adaptive Embedding Feature Part 1 of 2"""
        adaptive_mask_tensors = {}
        for name in CATEGORICAL_COLUMNS:
            adaptive_mask_tensors[name] = tf.ones([args.batch_size], tf.int32)
        return tf.feature_column.input_layer(
            features=features,
            feature_columns=columns,
            adaptive_mask_tensors=adaptive_mask_tensors,
        )
    return tf.feature_column.input_layer(features=features, feature_columns=columns)


def optimizer_of(kind, learning_rate, global_step):
    if args.tf or kind == "adam":
        return tf.train.AdamOptimizer(
            learning_rate=learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8
        )
    if kind == "adagrad":
        return tf.train.AdagradOptimizer(
            learning_rate=learning_rate, initial_accumulator_value=0.1, use_locking=False
        )
    if kind == "adamasync":
        return tf.train.AdamAsyncOptimizer(
            learning_rate=learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8
        )
    if kind == "adagraddecay":
        return tf.train.AdagradDecayOptimizer(learning_rate=learning_rate, global_step=global_step)
    if kind == "gradientdescent":
        return tf.train.GradientDescentOptimizer(learning_rate)
    raise ValueError("Optimizer type error.")
