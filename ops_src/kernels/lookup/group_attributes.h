#ifndef GRAPH_OPT_KERNELS_LOOKUP_GROUP_ATTRIBUTES_H_
#define GRAPH_OPT_KERNELS_LOOKUP_GROUP_ATTRIBUTES_H_

#include <string>

// What the registrations of all ops of a group lookup share (read by GroupAttrs).

#define GRAPH_OPT_GROUP_INPUTS                 \
  Input("ids: id_dtypes")                      \
      .Input("positions: num_lookups * int64") \
      .Input("shapes: num_lookups * int64")    \
      .Input("weights: num_weights * float")

#define GRAPH_OPT_GROUP_ATTRS                                                    \
  Attr("num_shards: int >= 1")                                                   \
      .Attr("num_lookups: int >= 1")                                             \
      .Attr("num_weights: int >= 0")                                             \
      .Attr("id_dtypes: list({int32, int64}) >= 1")                              \
      .Attr("lookup_tables: list(int) >= 1")                                     \
      .Attr("table_shards: list(int) >= 1")                                      \
      .Attr("table_names: list(string) >= 1")                                    \
      .Attr("combiners: list(string) >= 1")                                      \
      .Attr("layouts: list(string) >= 1")                                        \
      .Attr("weighted: list(bool) >= 1")                                         \
      .Attr("default_ids: list(int) >= 1")                                       \
      .Attr("filled_ids: list(int) = []")                                        \
      .Attr("partition_strategies: list({'mod', 'div', 'key', 'key1000'}) = []") \
      .Attr("safe: bool = true")                                                 \
      .Attr("columns: list(int) = []")                                           \
      .Attr("columns_width: int = 0")

namespace graph_opt {

inline std::string GroupDoc(const std::string& doc) {
  return doc + R"doc(
ids: The ids of each lookup: [K], or [B] or [B, W] for a dense one.
positions: The rows they belong to. Sparse: the SparseTensor's indices [K, rank], or segment ids [K];
  ragged: row splits [B + 1]; dense: not read.
shapes: Sparse: the SparseTensor's dense_shape, or empty with segment ids, the last of which then
  determines the number of rows. Otherwise not read.
weights: One for each id, of the weighted lookups only.
num_shards: Total of all tables.
num_lookups: L; T is the number of tables.
num_weights: The number of weighted lookups.
id_dtypes: [L].
lookup_tables: [L]. The table of each lookup.
table_shards: [T]. The number of variables that a table is partitioned into, in order of tables.
table_names: [T]. For error messages.
combiners: [L]. sum, mean or sqrtn; or mean_or_nan or sqrtn_or_nan, of weighted lookups that are not
  safe: where the weights of a row, or their squares, add up to 0, the result is nan or infinite, as
  with TensorFlow 1, instead of 0.
layouts: [L]. sparse, ragged or dense.
weighted: [L].
default_ids: [L]. The row that an empty bag gives, or -1: zeros.
filled_ids: Empty, or [L], of gradients and updates, and of the ops that ask ranks for the rows of
  these: the row that an empty bag gives a gradient of zero, as tf.nn.safe_embedding_lookup_sparse
  does, or -1: none.
partition_strategies: Empty, or [T]: how ids are spread over the shards of each table, as in
  tf.nn.embedding_lookup; empty: mod. key and key1000: of dynamic tables, whose ids are keys: the
  shard is key mod shards, or key mod 1000 mod shards, with non-negative remainders; only in ops of
  shards that are elsewhere.
safe: Drop ids < 0, and weights not > 0 unless the combiner is sum, as
  tf.nn.safe_embedding_lookup_sparse does; else ids < 0 are errors.
columns: Empty, or [L]: the pooled rows of all lookups are one tensor [B, columns_width], of which
  lookup i has the columns from columns[i] on, as many as its table has; together all of them. So
  are their gradients. The lookups then have equal B and type.
columns_width: With columns only.
)doc";
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_GROUP_ATTRIBUTES_H_
