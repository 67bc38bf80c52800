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
from tensorflow.python.client import timeline
from tensorflow.python.feature_column import utils as fc_utils
from tensorflow.python.feature_column.feature_column import _LazyBuilder
from tensorflow.python.ops import partitioned_variables
from tensorflow.python.ops.embedding_ops import fused_safe_embedding_lookup_sparse

tf.logging.set_verbosity(tf.logging.INFO)
print("Using TensorFlow version %s" % (tf.__version__))

BUCKETS = 200
WIDTH = 4
SCALE = 1  # of hidden layers
USER_COLUMN = ["user_id", "cms_segid", "age_level"]
ITEM_COLUMN = ["adgroup_id", "cate_id", "pid"]
TAG_COLUMN = ["tag_category_list", "tag_brand_list"]
PRICE_COLUMN = ["price"]
LABEL_COLUMN = ["clicked", "buy"]
CATEGORICAL_COLUMNS = USER_COLUMN + ITEM_COLUMN + TAG_COLUMN
TRAIN_DATA_COLUMNS = LABEL_COLUMN + CATEGORICAL_COLUMNS + PRICE_COLUMN
HASH_BUCKET_SIZES = {name: BUCKETS for name in CATEGORICAL_COLUMNS}


def parse_features(columns):
    return collections.OrderedDict(zip(TRAIN_DATA_COLUMNS[1:], columns[1:]))


def with_split_tags(features):
    features = dict(features)
    for name in TAG_COLUMN:
        features[name] = tf.strings.split(features[name], "|")
    return features


def record_defaults():
    return [[0], [0]] + [[""] for i in CATEGORICAL_COLUMNS] + [[0.0]]


def continuous_columns():
    boundaries = [10.0, 50.0, 250.0]
    price = tf.feature_column.numeric_column("price")
    return [
        tf.feature_column.embedding_column(
            tf.feature_column.bucketized_column(price, boundaries), dimension=4
        )
    ]


def widths():
    return {name: WIDTH for name in CATEGORICAL_COLUMNS}


def bucket_sizes():
    return HASH_BUCKET_SIZES
