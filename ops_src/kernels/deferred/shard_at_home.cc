#include "kernels/deferred/shard_at_home.h"

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "rows/row_kernels.h"

namespace graph_opt {

Status ShardAtHome::Open(OpKernelContext* ctx, RowState* state) {
  const ShardHome home = state->home();
  if (home.empty()) return Status();
  TF_RETURN_IF_ERROR(home.Open(ctx, &variables_));
  const int average = home.averaged() ? home.size() - 1 : home.size();
  const bool has_average = home.averaged() && variables_.is_initialized(average);
  for (int i = 0; i < average + has_average; ++i) {
    if (!variables_.is_initialized(i) || variables_[i].dtype() != tensorflow::DT_FLOAT ||
        !state->Fits(variables_[i])) {
      return Status();
    }
  }
  shard_.rows = state->rows();
  shard_.dim = variables_[0].dim_size(1);
  shard_.table = variables_.floats(0);
  for (int slot = 0; slot + 1 < average; ++slot) {
    shard_.slots[slot] = variables_.floats(1 + slot);
  }
  if (has_average) shard_.average = variables_.floats(average);
  return Status();
}

Status CatchUpAtHome(OpKernelContext* ctx, RowState* state) {
  if (state->rows()->is_settled()) return Status();
  ShardAtHome at_home;
  TF_RETURN_IF_ERROR(at_home.Open(ctx, state));
  DeviceThreads threads(ctx);
  CatchUpAll({at_home.shard()}, ctx->step_id(), BestRowKernels(), &threads);
  return Status();
}

}  // namespace graph_opt
