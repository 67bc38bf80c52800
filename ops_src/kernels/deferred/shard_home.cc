#include "kernels/deferred/shard_home.h"

#include "kernels/kernel_names.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace graph_opt {

ShardHome::ShardHome(OpKernelContext* ctx, const VariableTables& variables, int num_shards,
                     int num_slots, int shard, bool averaged)
    : averaged_(averaged) {
  const bool has_handles = ctx->input_dtype(shard) == tensorflow::DT_RESOURCE;
  for (int i = shard; i < num_shards * (1 + num_slots); i += num_shards) {
    if (has_handles) {
      const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, i);
      handles_.push_back({handle.container(), handle.name()});
    } else {
      references_.push_back(variables[i]);
    }
  }
}

bool ShardHome::HasInputs(OpKernelContext* ctx, int num_shards, int num_slots, int shard) const {
  const bool has_handles = ctx->input_dtype(shard) == tensorflow::DT_RESOURCE;
  if ((has_handles ? handles_.size() : references_.size()) != size_t(1 + num_slots)) return false;
  for (int i = 0; i <= num_slots; ++i) {
    const int input = shard + i * num_shards;
    if (has_handles) {
      const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, input);
      if (handle.name() != handles_[i].second || handle.container() != handles_[i].first) {
        return false;
      }
    } else if (!ctx->mutable_input(input, false).SharesBufferWith(references_[i])) {
      return false;
    }
  }
  return true;
}

Status ShardHome::Open(OpKernelContext* ctx, VariableTables* variables) const {
  return handles_.empty() ? variables->OpenTensors(references_)
                          : variables->OpenNamed(ctx, handles_);
}

}  // namespace graph_opt
