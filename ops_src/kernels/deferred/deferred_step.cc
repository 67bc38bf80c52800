#include "kernels/deferred/deferred_step.h"

#include "kernels/kernel_names.h"
#include "rows/row_kernels.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status CheckDeferred(const std::string& op, const Optimizer& optimizer, bool averaged) {
  const absl::Status status = CheckDeferrable(optimizer, averaged);
  if (status.ok()) return Status();
  return errors::InvalidArgument(op, ": row_states defer the update, but ",
                                 std::string(status.message()));
}

Status DeferredStep::Open(OpKernelContext* ctx, const RowStates& states,
                          const OptimizerInputs& optimizer, VariableTables* variables) {
  const int num_shards = states.size();
  averaged_ = optimizer.averaged();
  states_.resize(num_shards);
  shards_.resize(num_shards);
  for (int i = 0; i < num_shards; ++i) {
    TF_RETURN_IF_ERROR(states.FindOrMake(ctx, i, (*variables)[i], &states_[i]));
    if (!states_[i]->has_home()) {
      const ShardHome home(ctx, *variables, num_shards, optimizer.slots_of_shard(), i, averaged_);
      TF_RETURN_IF_ERROR(states.MoveTo(ctx, i, home, states_[i].get()));
    }
    shards_[i].rows = states_[i]->rows();
    shards_[i].table = variables->floats(i);
    shards_[i].dim = (*variables)[i].dim_size(1);
    TF_RETURN_IF_ERROR(
        optimizer.SlotsOf(ctx->op_kernel().name(), variables, i, "", shards_[i].slots));
    TF_RETURN_IF_ERROR(
        optimizer.AverageOf(ctx->op_kernel().name(), variables, i, &shards_[i].average));
  }
  return Status();
}

Status DeferredStep::Begin(OpKernelContext* ctx, const Optimizer& optimizer, Parallel* parallel) {
  if (shards_.empty()) return Status();
  TF_RETURN_IF_ERROR(CheckDeferred(ctx->op_kernel().name(), optimizer, averaged_));
  update_.reset(new DeferredUpdate(optimizer, shards_, ctx->step_id(), BestRowKernels(), parallel));
  return Status();
}

}  // namespace graph_opt
