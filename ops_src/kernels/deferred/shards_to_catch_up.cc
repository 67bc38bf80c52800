#include "kernels/deferred/shards_to_catch_up.h"

#include <algorithm>

#include "kernels/deferred/shard_at_home.h"
#include "kernels/kernel_names.h"

namespace graph_opt {

Status ShardsToCatchUp::Find(OpKernelContext* ctx, const RowStates& states, int num_slots,
                             bool* found) {
  *found = false;
  for (int shard = 0; shard < states.size(); ++shard) {
    states_.push_back(states.Find(ctx, shard));
    RowState* const state = states_.back().get();
    if (state == nullptr) continue;
    if (!state->has_home() || state->IsHome(ctx, states.size(), num_slots, shard)) {
      *found = true;
      continue;
    }
    TF_RETURN_IF_ERROR(CatchUpAtHome(ctx, state));
    states_.back().reset();
  }
  return Status();
}

bool ShardsToCatchUp::AreSettled() const {
  return std::all_of(states_.begin(), states_.end(), [](const RowStates::Pointer& state) {
    return state == nullptr || state->rows()->is_settled();
  });
}

Status ShardsToCatchUp::Open(OpKernelContext* ctx, const RowStates& states,
                             const OptimizerInputs& optimizer) {
  const int num_shards = static_cast<int>(states_.size());
  const int num_slots = optimizer.num_slots();
  std::vector<bool> is_updated;
  for (int variable = 0; variable < optimizer.num_variables(); ++variable) {
    is_updated.push_back(states_[variable % num_shards] != nullptr);
  }
  TF_RETURN_IF_ERROR(variables_.OpenThoseInitialized(ctx, is_updated, optimizer.purpose()));
  shards_.resize(num_shards);
  for (int i = 0; i < num_shards; ++i) {
    if (states_[i] == nullptr) continue;
    if (!Fits(optimizer, i)) {
      states.Drop(ctx, i);
      continue;
    }
    DeferredShard& shard = shards_[i];
    shard.rows = states_[i]->rows();
    shard.dim = variables_[i].dim_size(1);
    shard.table = variables_.floats(i);
    for (int slot = 0; slot < num_slots; ++slot) {
      shard.slots[slot] = variables_.floats(num_shards * (1 + slot) + i);
    }
    TF_RETURN_IF_ERROR(
        optimizer.AverageOf(ctx->op_kernel().name(), &variables_, i, &shard.average));
  }
  return Status();
}

bool ShardsToCatchUp::Fits(const OptimizerInputs& optimizer, int shard) const {
  const int num_shards = static_cast<int>(states_.size());
  if (!variables_.is_initialized(shard) || !states_[shard]->Fits(variables_[shard])) return false;
  for (int place = shard; place < num_shards * (1 + optimizer.num_slots()); place += num_shards) {
    const Tensor& tensor = variables_[place];
    if (!variables_.is_initialized(place) || tensor.dtype() != tensorflow::DT_FLOAT ||
        tensor.shape() != variables_[shard].shape()) {
      return false;
    }
  }
  return true;
}

int64_t ShardsToCatchUp::num_rows(int shard) const {
  const bool is_matrix = variables_.is_initialized(shard) && variables_[shard].dims() == 2;
  return is_matrix ? variables_[shard].dim_size(0) : -1;
}

}  // namespace graph_opt
