# ruff: noqa
# mypy: ignore-errors


def build_model_input(filename, batch_size, num_epochs):
    """Generates the dataset pipeline."""

    def parse_csv(value):
        tf.logging.info("Parsing {}".format(filename))
        columns = tf.io.decode_csv(value, record_defaults=record_defaults())
        return parse_features(columns), columns[0]

    def parse_parquet(value):
        tf.logging.info("Parsing {}".format(filename))
        columns = [value[name] for name in TRAIN_DATA_COLUMNS]
        return parse_features(columns), columns[0]

    """Work Queue Feature"""
    if args.workqueue and not args.tf:
        from tensorflow.python.ops.work_queue import WorkQueue

        work_queue = WorkQueue([filename], num_epochs=num_epochs)
        # For multiple files:
        # work_queue = WorkQueue([filename, filename1, filename2, filename3])
        files = work_queue.input_dataset()
    else:
        files = filename
    # Extract lines from input files using the Dataset API.
    if args.parquet_dataset and not args.tf:
        from tensorflow.python.data.experimental.ops import parquet_dataset_ops

        dataset = parquet_dataset_ops.ParquetDataset(files, batch_size=batch_size)
        if args.parquet_dataset_shuffle:
            dataset = dataset.shuffle(buffer_size=20000, seed=args.seed)
        if not args.workqueue:
            dataset = dataset.repeat(num_epochs)
        dataset = dataset.map(parse_parquet, num_parallel_calls=28)
    else:
        dataset = tf.data.TextLineDataset(files)
        dataset = dataset.shuffle(buffer_size=20000, seed=args.seed)
        if not args.workqueue:
            dataset = dataset.repeat(num_epochs)
        dataset = dataset.batch(batch_size)
        dataset = dataset.map(parse_csv, num_parallel_calls=28)
    return dataset.prefetch(2)
