#ifndef GRAPH_OPT_KERNELS_DEFERRED_ROW_STATES_H_
#define GRAPH_OPT_KERNELS_DEFERRED_ROW_STATES_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The attribute `row_states`: where an op's shards keep up to which step their rows are current.
class RowStates {
 public:
  // Fails unless there is an entry for each shard. An update's may be empty.
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, int num_shards, bool may_be_empty);

  bool empty() const { return places_.empty(); }

 private:
  struct Place {
    std::string container;  // empty: the device's default one
    std::string name;
  };

  std::vector<Place> places_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_ROW_STATES_H_
