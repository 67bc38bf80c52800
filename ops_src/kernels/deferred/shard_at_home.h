#ifndef GRAPH_OPT_KERNELS_DEFERRED_SHARD_AT_HOME_H_
#define GRAPH_OPT_KERNELS_DEFERRED_SHARD_AT_HOME_H_

#include "deferred/deferred_rows.h"
#include "kernels/deferred/row_state.h"
#include "kernels/lookup/variable_tables.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The shard of a state and its slots, at their home and for the duration of a kernel call, for ops
// that do not have them as inputs.
class ShardAtHome {
 public:
  // If one of them is not initialized, or no longer what the state was made for, the shard has no
  // rows.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, RowState* state);

  const DeferredShard& shard() const { return shard_; }
  int64_t num_rows() const { return shard_.rows == nullptr ? 0 : shard_.rows->num_rows(); }

 private:
  VariableTables variables_;
  DeferredShard shard_;
};

// Catches up all rows.
tensorflow::Status CatchUpAtHome(tensorflow::OpKernelContext* ctx, RowState* state);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_SHARD_AT_HOME_H_
