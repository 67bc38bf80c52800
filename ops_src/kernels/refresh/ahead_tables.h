#ifndef GRAPH_OPT_KERNELS_REFRESH_AHEAD_TABLES_H_
#define GRAPH_OPT_KERNELS_REFRESH_AHEAD_TABLES_H_

#include <string>
#include <vector>

#include "lookup/ahead_choice.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace graph_opt {

// The attribute `ahead_choice`, which a lookup ahead of its step shares with what refreshes it: the
// name of the AheadChoice that they follow, in the resource manager of their device.
class AheadTables {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  bool empty() const { return name_.empty(); }

  // Chooses, among the tables that may be left to a step, those for the step that this op is part
  // of, and notes them there.
  tensorflow::Status Choose(tensorflow::OpKernelContext* ctx, const std::vector<bool>& may_be_left,
                            std::vector<bool>* ahead) const;

  // What was chosen in this step; empty: all tables.
  tensorflow::Status Chosen(tensorflow::OpKernelContext* ctx, std::vector<bool>* ahead) const;

  // See AheadChoice. `ahead` and `again` are bags of each table.
  tensorflow::Status Learn(tensorflow::OpKernelContext* ctx, const std::vector<int64_t>& ahead,
                           const std::vector<int64_t>& again) const;

 private:
  std::string name_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_REFRESH_AHEAD_TABLES_H_
