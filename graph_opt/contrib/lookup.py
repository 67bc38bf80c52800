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

HashTable = tf.lookup.StaticHashTable
KeyValueTensorInitializer = tf.lookup.KeyValueTensorInitializer
TextFileIndex = tf.lookup.TextFileIndex
TextFileInitializer = tf.lookup.TextFileInitializer

__all__ = [
    "HashTable",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "MutableHashTable",
    "TextFileIndex",
    "TextFileInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]
