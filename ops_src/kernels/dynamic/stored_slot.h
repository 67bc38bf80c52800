#ifndef GRAPH_OPT_KERNELS_DYNAMIC_STORED_SLOT_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_STORED_SLOT_H_

#include <cstdint>

#include "tensorflow/core/framework/types.h"

namespace graph_opt {

// How checkpoints have a slot. Integers are one for each row, in the first column, and 0 in others.
// A table has such a number in all columns of its slot: a narrower slot would save nothing where
// records begin at lines of the cache.
struct StoredSlot {
  tensorflow::DataType dtype = tensorflow::DT_FLOAT;
  int64_t width = 0;  // 0: that of the table

  bool is_number() const { return dtype != tensorflow::DT_FLOAT; }
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_STORED_SLOT_H_
