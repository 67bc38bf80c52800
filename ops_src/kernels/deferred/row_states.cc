#include "kernels/deferred/row_states.h"

#include <algorithm>

#include "kernels/deferred/other_sessions.h"
#include "kernels/deferred/shard_at_home.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status RowStates::Read(OpKernelConstruction* ctx, int num_shards, Of of) {
  std::vector<std::string> entries;
  TF_RETURN_IF_ERROR(ctx->GetAttr("row_states", &entries));
  if (of == kUpdate && entries.empty()) return Status();
  const std::string& op = ctx->def().name();
  if (entries.size() != static_cast<size_t>(num_shards)) {
    return errors::InvalidArgument(op, ": row_states has ", entries.size(),
                                   " entries, need one for each of the ", num_shards, " shards");
  }
  const bool has_handles = ctx->input_type(0) == tensorflow::DT_RESOURCE;
  for (const std::string& entry : entries) {
    const StatePlace place(entry, has_handles);
    const bool may_be_empty = of == kReader && entry.empty();
    if (place.name.empty() && !may_be_empty) {
      return errors::InvalidArgument(op, ": row_states has the entry '", entry,
                                     "'; need the name of a variable");
    }
    if (!may_be_empty && std::count(places_.begin(), places_.end(), place) > 0) {
      return errors::InvalidArgument(op, ": row_states has the entry '", entry,
                                     "' twice; need another one for each shard");
    }
    places_.push_back(place);
  }
  std::vector<std::string> slots;
  if (TryGetNodeAttr(ctx->def(), kSlotStates, &slots)) {
    for (const std::string& entry : slots) slots_.emplace_back(entry, has_handles);
  }
  return Status();
}

RowStates::Pointer RowStates::Find(OpKernelContext* ctx, int shard) const {
  return places_[shard].Find(ctx);
}

Status RowStates::FindOrMake(OpKernelContext* ctx, int shard, const Tensor& table,
                             Pointer* state) const {
  const StatePlace& place = places_[shard];
  for (;;) {
    *state = Find(ctx, shard);
    if (*state != nullptr && (*state)->Fits(table)) return Status();
    if (*state != nullptr) Drop(ctx, shard);
    // Made here and not by the manager, whom all ops of the device would wait for.
    RowState* const made = new RowState(table);
    made->Ref();
    state->reset(made);
    const Status created =
        ctx->resource_manager()->Create(place.ContainerOf(ctx), place.name, made);
    if (!errors::IsAlreadyExists(created)) return created;
  }
}

Status RowStates::CatchUpOthers(OpKernelContext* ctx, int num_slots) const {
  for (int shard = 0; shard < size(); ++shard) {
    const Pointer state = Find(ctx, shard);
    if (state == nullptr || !state->has_home()) continue;
    if (state->IsHome(ctx, size(), num_slots, shard)) continue;
    TF_RETURN_IF_ERROR(CatchUpAtHome(ctx, state.get()));
    state->MoveTo(ShardHome());
  }
  return Status();
}

Status RowStates::MoveTo(OpKernelContext* ctx, int shard, const ShardHome& home,
                         RowState* state) const {
  state->MoveTo(home);
  const StatePlace& place = places_[shard];
  for (size_t i = shard; i < slots_.size(); i += places_.size()) {
    const StatePlace& slot = slots_[i];
    tensorflow::ResourceMgr* const manager = ctx->resource_manager();
    manager->Delete<SlotState>(slot.ContainerOf(ctx), slot.name).IgnoreError();
    const Status made = manager->Create(slot.ContainerOf(ctx), slot.name,
                                        new SlotState(place.ContainerOf(ctx), place.name));
    if (!made.ok() && !errors::IsAlreadyExists(made)) return made;
  }
  return Status();
}

void RowStates::Drop(OpKernelContext* ctx, int shard) const {
  const StatePlace& place = places_[shard];
  // Another step may have dropped it already.
  ctx->resource_manager()->Delete<RowState>(place.ContainerOf(ctx), place.name).IgnoreError();
}

}  // namespace graph_opt
