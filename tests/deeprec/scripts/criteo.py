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
from tensorflow.core.framework.embedding import config_pb2
from tensorflow.python.client import timeline
from tensorflow.python.ops import partitioned_variables

# Set to INFO for tracking training, default is WARN. ERROR for least messages
tf.logging.set_verbosity(tf.logging.INFO)
print("Using TensorFlow version %s" % (tf.__version__))

CONTINUOUS = 4
CATEGORICAL = 6
BUCKETS = 100
WIDTH = 4
SCALE = 1  # of hidden layers
CONTINUOUS_COLUMNS = ["I" + str(i + 1) for i in range(CONTINUOUS)]
CATEGORICAL_COLUMNS = ["C" + str(i + 1) for i in range(CATEGORICAL)]
LABEL_COLUMN = ["clicked"]
TRAIN_DATA_COLUMNS = LABEL_COLUMN + CONTINUOUS_COLUMNS + CATEGORICAL_COLUMNS
FEATURE_COLUMNS = CONTINUOUS_COLUMNS + CATEGORICAL_COLUMNS
HASH_BUCKET_SIZES = {name: BUCKETS for name in CATEGORICAL_COLUMNS}
# Statistics of the data set, calculated in advance to save time.
MINS = [0.0, -3.0, 0.0, 0.0] * CONTINUOUS
RANGES = [1539.0, 22069.0, 65538.0, 561.0] * CONTINUOUS


def parse_features(columns):
    return collections.OrderedDict(zip(TRAIN_DATA_COLUMNS[1:], columns[1:]))


def record_defaults():
    cont_defaults = [[0.0] for i in CONTINUOUS_COLUMNS]
    cate_defaults = [[" "] for i in CATEGORICAL_COLUMNS]
    label_defaults = [[0]]
    return label_defaults + cont_defaults + cate_defaults


def make_minmaxscaler(min, range):
    def minmaxscaler(col):
        return (col - min) / range

    return minmaxscaler


def continuous_columns():
    return [
        tf.feature_column.numeric_column(
            name, normalizer_fn=make_minmaxscaler(MINS[i], RANGES[i]), shape=(1,)
        )
        for i, name in enumerate(CONTINUOUS_COLUMNS)
    ]


def widths():
    return {name: WIDTH for name in CATEGORICAL_COLUMNS}


def bucket_sizes():
    return HASH_BUCKET_SIZES
