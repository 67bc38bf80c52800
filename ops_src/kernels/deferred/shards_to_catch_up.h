#ifndef GRAPH_OPT_KERNELS_DEFERRED_SHARDS_TO_CATCH_UP_H_
#define GRAPH_OPT_KERNELS_DEFERRED_SHARDS_TO_CATCH_UP_H_

#include <cstdint>
#include <vector>

#include "deferred/deferred_rows.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/deferred/row_states.h"
#include "kernels/lookup/variable_tables.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The shards that an op catches up, for the duration of a kernel call. The variables' locks are
// taken before those of updates, as updates do.
class ShardsToCatchUp {
 public:
  // The first inputs are the shards and their slots, one state for each shard. `found` is false if
  // no shard has a state: then nothing was left behind, and nothing is opened. A shard whose
  // updates another optimizer defers, with other slots, is caught up at once.
  tensorflow::Status Find(tensorflow::OpKernelContext* ctx, const RowStates& states, int num_slots,
                          bool* found);

  // Whether all rows of those found are current.
  bool AreSettled() const;

  // Then opens the variables. A state whose shard or slots are not initialized, or are no longer
  // those that it was made for, is dropped.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, const RowStates& states,
                          const OptimizerInputs& optimizer);

  // Shards without a state have no rows here.
  const std::vector<DeferredShard>& shards() const { return shards_; }
  // Rows of a shard; -1 if it is not initialized or no matrix.
  int64_t num_rows(int shard) const;

 private:
  bool Fits(const OptimizerInputs& optimizer, int shard) const;

  std::vector<RowStates::Pointer> states_;
  std::vector<DeferredShard> shards_;
  VariableTables variables_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_SHARDS_TO_CATCH_UP_H_
