"""`tf.contrib.lookup`: tables from words to ids and back."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.compat.contrib_parts import (
    IdTableWithHashBuckets,
    MutableHashTable,
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)
from graph_opt.contrib.files import missing_from

HashTable = tf.lookup.StaticHashTable
MutableDenseHashTable = tf.lookup.experimental.DenseHashTable
KeyValueTensorInitializer = tf.lookup.KeyValueTensorInitializer
TextFileIndex = tf.lookup.TextFileIndex
TextFileInitializer = tf.lookup.TextFileInitializer

__all__ = [
    "HashTable",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "MutableDenseHashTable",
    "MutableHashTable",
    "TextFileIndex",
    "TextFileInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]

__getattr__ = missing_from(
    __name__,
    {
        "get_mutable_dense_hashtable": "MutableDenseHashTable",
        "string_to_index_table_from_file": "index_table_from_file",
        "string_to_index_table_from_tensor": "index_table_from_tensor",
        "*": "tf.lookup",
    },
)
