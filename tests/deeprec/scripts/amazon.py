# ruff: noqa
# mypy: ignore-errors
import argparse
import collections
import json
import math
import os
import sys
import time

import tensorflow as tf
from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _Linear
from tensorflow.python.client import timeline
from tensorflow.python.feature_column import utils as fc_utils
from tensorflow.python.feature_column.feature_column import _LazyBuilder
from tensorflow.python.ops import partitioned_variables
from tensorflow.python.ops.embedding_ops import fused_safe_embedding_lookup_sparse

tf.logging.set_verbosity(tf.logging.INFO)
print("Using TensorFlow version %s" % (tf.__version__))

UNSEQ_COLUMNS = ["UID", "ITEM", "CATEGORY"]
SEQ_COLUMNS = ["HISTORY_ITEM", "HISTORY_CATEGORY"]
NEG_COLUMNS = ["NOCLK_HISTORY_ITEM", "NOCLK_HISTORY_CATEGORY"]
LABEL_COLUMN = ["CLICKED"]
TRAIN_DATA_COLUMNS = LABEL_COLUMN + UNSEQ_COLUMNS + SEQ_COLUMNS + NEG_COLUMNS
CATEGORICAL_COLUMNS = UNSEQ_COLUMNS
WIDTH = 4


def build_model_input(filename, batch_size, num_epochs):
    """Generates the dataset pipeline: lines, beside lines with what was not clicked."""

    def parse_csv(value, neg_value):
        tf.logging.info("Parsing {}".format(filename))
        record_defaults = [[0]] + [[" "] for i in range(0, 5)]
        columns = tf.io.decode_csv(value, record_defaults=record_defaults, field_delim="\t")
        neg_columns = tf.io.decode_csv(neg_value, record_defaults=[[""], [""]], field_delim="\t")
        columns.extend(neg_columns)
        all_columns = collections.OrderedDict(zip(TRAIN_DATA_COLUMNS, columns))
        labels = all_columns.pop(LABEL_COLUMN[0])
        features = all_columns
        return features, labels

    """Work Queue Feature"""
    if args.workqueue and not args.tf:
        from tensorflow.python.ops.work_queue import WorkQueue

        work_queue = WorkQueue([filename], num_epochs=num_epochs)
        neg_work_queue = WorkQueue([filename + "_neg"], num_epochs=num_epochs)
        files = work_queue.input_dataset()
        neg_files = neg_work_queue.input_dataset()
    else:
        files = filename
        neg_files = filename + "_neg"
    # Extract lines from input files using the Dataset API.
    dataset = tf.data.TextLineDataset(files)
    dataset_neg_samples = tf.data.TextLineDataset(neg_files)
    dataset = tf.data.Dataset.zip((dataset, dataset_neg_samples))
    dataset = dataset.shuffle(buffer_size=20000, seed=args.seed)
    if not args.workqueue:
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.prefetch(args.batch_size)
    dataset = dataset.batch(batch_size)
    dataset = dataset.map(parse_csv, num_parallel_calls=28)
    return dataset.prefetch(1)


def vocabulary_columns():
    """Columns over the files of a data set that tell its users, items and categories."""
    files = {"UID": "uid_voc.txt", "ITEM": "mid_voc.txt", "CATEGORY": "cat_voc.txt"}
    return {
        name: tf.feature_column.categorical_column_with_vocabulary_file(
            name, os.path.join(args.data_location, files[name.split("_")[-1]]), default_value=0
        )
        for name in UNSEQ_COLUMNS + SEQ_COLUMNS + NEG_COLUMNS
    }


def uid_embedding_column():
    if args.ev and not args.tf:
        column = tf.feature_column.categorical_column_with_embedding(
            "UID", dtype=tf.string, ev_option=ev_option()
        )
    else:
        column = vocabulary_columns()["UID"]
    if args.tf or not args.emb_fusion:
        return tf.feature_column.embedding_column(column, dimension=EMBEDDING_DIM)
    return tf.feature_column.embedding_column(
        column, dimension=EMBEDDING_DIM, do_fusion=args.emb_fusion
    )
