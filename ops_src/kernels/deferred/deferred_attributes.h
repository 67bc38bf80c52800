#ifndef GRAPH_OPT_KERNELS_DEFERRED_DEFERRED_ATTRIBUTES_H_
#define GRAPH_OPT_KERNELS_DEFERRED_DEFERRED_ATTRIBUTES_H_

#include <string>

#include "kernels/apply/optimizer_attributes.h"

// What the registrations of the ops that catch up rows share (read by RowStates).

#define GRAPH_OPT_DEFERRED_ATTRS      \
  Attr(OptimizerAttr())               \
      .Attr("num_slots: int >= 0")    \
      .Attr("averaged: bool = false") \
      .Attr("row_states: list(string) >= 1")

namespace graph_opt {

// Of ops that catch up rows.
inline std::string DeferredDoc(const std::string& doc) {
  return RowStatesDoc(doc + R"doc(
tables: The shards of each table, [rows, width] of float32.
slots: As those of the update. A shard that is not deferred has an empty entry in row_states, and
  its slots, which may be the shard itself, are not read.
optimizer: As that of the update.
averaged: As that of the update.
num_slots: Shards times the optimizer's slots, and one more for an average.)doc");
}

// The attribute that tells what the rows are caught up for.
inline std::string WeightsOnlyDoc(const std::string& doc) {
  return doc + R"doc(
weights_only: No averages are read: rows are left alone whose average alone is behind.)doc";
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_DEFERRED_ATTRIBUTES_H_
