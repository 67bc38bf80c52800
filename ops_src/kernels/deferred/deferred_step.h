#ifndef GRAPH_OPT_KERNELS_DEFERRED_DEFERRED_STEP_H_
#define GRAPH_OPT_KERNELS_DEFERRED_DEFERRED_STEP_H_

#include <memory>
#include <string>
#include <vector>

#include "deferred/deferred_rows.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/deferred/row_states.h"
#include "kernels/lookup/variable_tables.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// Whether an update with `row_states` can be deferred, of tables with an average or not; `op` is
// named in the error.
tensorflow::Status CheckDeferred(const std::string& op, const Optimizer& optimizer, bool averaged);

// The step of an update that has `row_states`; of another one it does nothing. It ends within the
// lifetime of the variables and threads that it was given.
class DeferredStep {
 public:
  // Takes or makes the states of the shards, matrices of floats whose slots are like them.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, const RowStates& states,
                          const OptimizerInputs& optimizer, VariableTables* variables);

  const std::vector<DeferredShard>& shards() const { return shards_; }

  // For the functor that updates the shard.
  DeferredRows* rows(int shard) const { return shards_.empty() ? nullptr : shards_[shard].rows; }

  // Waits for the steps of other updates of the shards.
  tensorflow::Status Begin(tensorflow::OpKernelContext* ctx, const Optimizer& optimizer,
                           Parallel* parallel);

 private:
  bool averaged_ = false;
  std::vector<RowStates::Pointer> states_;
  std::vector<DeferredShard> shards_;
  std::unique_ptr<DeferredUpdate> update_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_DEFERRED_STEP_H_
