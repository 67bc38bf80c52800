# ruff: noqa
# mypy: ignore-errors


def train(
    sess_config,
    input_hooks,
    model,
    data_init_op,
    steps,
    checkpoint_dir,
    tf_config=None,
    server=None,
):
    model.is_training = True
    hooks = []
    hooks.extend(input_hooks)
    scaffold = tf.train.Scaffold(
        local_init_op=tf.group(
            tf.tables_initializer(), tf.local_variables_initializer(), data_init_op
        ),
        saver=tf.train.Saver(max_to_keep=args.keep_checkpoint_max),
    )
    stop_hook = tf.train.StopAtStepHook(last_step=steps)
    log_hook = tf.train.LoggingTensorHook(
        {"steps": model.global_step, "loss": model.loss}, every_n_iter=10
    )
    hooks.append(stop_hook)
    hooks.append(log_hook)
    if args.timeline > 0:
        hooks.append(tf.train.ProfilerHook(save_steps=args.timeline, output_dir=checkpoint_dir))
    save_steps = args.save_steps if args.save_steps or args.no_eval else steps
    """
    Incremental_Checkpoint: please add `save_incremental_checkpoint_secs` in
    'tf.train.MonitoredTrainingSession'.
    """
    if args.incremental_ckpt and not args.tf:
        print("Incremental_Checkpoint is not really enabled.")
        print("Please see the comments in the code.")
        sys.exit()
    with tf.train.MonitoredTrainingSession(
        master=server.target if server else "",
        is_chief=tf_config["is_chief"] if tf_config else True,
        hooks=hooks,
        scaffold=scaffold,
        checkpoint_dir=checkpoint_dir,
        save_checkpoint_steps=save_steps,
        summary_dir=checkpoint_dir,
        save_summaries_steps=args.save_steps,
        config=sess_config,
    ) as sess:
        sess.run(tf.get_collection(tf.GraphKeys.EV_INIT_VAR_OPS) if not args.tf else [])
        while not sess.should_stop():
            sess.run([model.loss, model.train_op])
    print("Training completed.")


def eval(sess_config, input_hooks, model, data_init_op, steps, checkpoint_dir):
    model.is_training = False
    hooks = []
    hooks.extend(input_hooks)
    scaffold = tf.train.Scaffold(
        local_init_op=tf.group(
            tf.tables_initializer(), tf.local_variables_initializer(), data_init_op
        )
    )
    session_creator = tf.train.ChiefSessionCreator(
        scaffold=scaffold, checkpoint_dir=checkpoint_dir, config=sess_config
    )
    writer = tf.summary.FileWriter(os.path.join(checkpoint_dir, "eval"))
    merged = tf.summary.merge_all()
    with tf.train.MonitoredSession(session_creator=session_creator, hooks=hooks) as sess:
        for _in in range(1, steps + 1):
            if _in != steps:
                sess.run([model.acc_op, model.auc_op])
                if _in % 1000 == 0:
                    print("Evaluation complate:[{}/{}]".format(_in, steps))
            else:
                eval_acc, eval_auc, events = sess.run([model.acc_op, model.auc_op, merged])
                writer.add_summary(events, _in)
                print("Evaluation complate:[{}/{}]".format(_in, steps))
                print("ACC = {}\nAUC = {}".format(eval_acc, eval_auc))


def export(model, checkpoint_dir, export_dir):
    with tf.Session() as sess:
        tf.train.Saver().restore(sess, tf.train.latest_checkpoint(checkpoint_dir))
        inputs = {
            name: tensor for name, tensor in model._feature.items() if isinstance(tensor, tf.Tensor)
        }
        tf.saved_model.simple_save(
            sess,
            export_dir,
            inputs,
            {"score": model.probability},
            legacy_init_op=tf.tables_initializer(),
        )


def main(tf_config=None, server=None):
    # check dataset and count data set size
    print("Checking dataset...")
    kind = "parquet" if args.parquet_dataset and not args.tf else "csv"
    train_file = args.data_location + "/train." + kind
    test_file = args.data_location + "/eval." + kind
    if (not os.path.exists(train_file)) or (not os.path.exists(test_file)):
        print("Dataset does not exist in the given data_location.")
        sys.exit()
    if kind == "parquet":
        import pyarrow.parquet as pq

        no_of_training_examples = pq.read_table(train_file).num_rows
        no_of_test_examples = pq.read_table(test_file).num_rows
    else:
        no_of_training_examples = sum(1 for line in open(train_file))
        no_of_test_examples = sum(1 for line in open(test_file))
    print("Numbers of training dataset is {}".format(no_of_training_examples))
    print("Numbers of test dataset is {}".format(no_of_test_examples))

    # set batch size, eporch & steps
    batch_size = args.batch_size
    if args.micro_batch and not args.tf:
        batch_size = math.ceil(args.batch_size / args.micro_batch)
    if args.steps == 0:
        no_of_epochs = 1
        train_steps = math.ceil((float(no_of_epochs) * no_of_training_examples) / batch_size)
    else:
        no_of_epochs = math.ceil((float(batch_size) * args.steps) / no_of_training_examples)
        train_steps = args.steps
    test_steps = math.ceil(float(no_of_test_examples) / batch_size)
    print("The training steps is {}".format(train_steps))
    print("The testing steps is {}".format(test_steps))

    # set fixed random seed
    tf.set_random_seed(args.seed)

    # set directory path for checkpoint_dir
    model_dir = os.path.join(args.output_dir, "model_" + str(int(time.time())))
    checkpoint_dir = args.checkpoint if args.checkpoint else model_dir
    print("Saving model checkpoints to " + checkpoint_dir)

    # create data pipline of train & test dataset
    with tf.device("/cpu:0"):
        train_dataset = build_model_input(train_file, batch_size, no_of_epochs)
        test_dataset = build_model_input(test_file, batch_size, 1)
        iterator = tf.data.Iterator.from_structure(
            train_dataset.output_types, test_dataset.output_shapes
        )
        next_element = iterator.get_next()
        train_init_op = iterator.make_initializer(train_dataset)
        test_init_op = iterator.make_initializer(test_dataset)

    # create variable partitioner for distributed training
    num_ps_replicas = len(tf_config["ps_hosts"]) if tf_config else 2
    input_partitioner = (
        partitioned_variables.min_max_variable_partitioner(
            max_partitions=num_ps_replicas, min_slice_size=args.input_layer_partitioner
        )
        if args.input_layer_partitioner
        else None
    )
    dense_partitioner = (
        partitioned_variables.min_max_variable_partitioner(
            max_partitions=num_ps_replicas, min_slice_size=args.dense_layer_partitioner << 10
        )
        if args.dense_layer_partitioner
        else None
    )

    # Session config
    sess_config = tf.ConfigProto()
    sess_config.inter_op_parallelism_threads = args.inter
    sess_config.intra_op_parallelism_threads = args.intra

    # Session hooks
    hooks = []
    if args.smartstaged and not args.tf:
        """Smart staged Feature"""
        next_element = tf.staged(next_element, num_threads=4, capacity=40)
        sess_config.graph_options.optimizer_options.do_smart_stage = True
        hooks.append(tf.make_prefetch_hook())
    if args.op_fusion and not args.tf:
        """Auto Graph Fusion"""
        sess_config.graph_options.optimizer_options.do_op_fusion = True
    if args.micro_batch and not args.tf:
        """Auto Mirco Batch"""
        sess_config.graph_options.optimizer_options.micro_batch_num = args.micro_batch
    if args.group_embedding == "collective" and not args.tf:
        tf.config.experimental.enable_distributed_strategy(strategy="collective")

    # create model
    model = Model(
        args.optimizer,
        args.learning_rate,
        next_element,
        args.bf16,
        input_partitioner,
        dense_partitioner,
    )

    # Run model training and evaluation
    train(
        sess_config,
        hooks,
        model,
        train_init_op,
        train_steps,
        checkpoint_dir,
        tf_config,
        server,
    )
    if not (args.no_eval or tf_config):
        eval(sess_config, hooks, model, test_init_op, test_steps, checkpoint_dir)
    if args.export and not tf_config:
        export(model, checkpoint_dir, args.export)
