#include "kernels/deferred/row_states.h"

#include "kernels/kernel_names.h"
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
  // A server may hold a variable of each kind under one name.
  const char* const kind =
      ctx->input_type(0) == tensorflow::DT_RESOURCE ? "resource " : "reference ";
  for (const std::string& entry : entries) {
    if (of == kReader && entry.empty()) {
      places_.emplace_back();
      continue;
    }
    const size_t colon = entry.find(':');
    const bool has_container = colon != std::string::npos;
    const std::string name = has_container ? entry.substr(colon + 1) : entry;
    if (name.empty()) {
      return errors::InvalidArgument(op, ": row_states has the entry '", entry,
                                     "'; need the name of a variable");
    }
    places_.push_back(Place{has_container ? entry.substr(0, colon) : "", kind + name});
    for (size_t i = 0; i + 1 < places_.size(); ++i) {
      if (places_[i].name != places_.back().name ||
          places_[i].container != places_.back().container) {
        continue;
      }
      return errors::InvalidArgument(op, ": row_states has the entry '", entry,
                                     "' twice; need another one for each shard");
    }
  }
  return Status();
}

RowStates::Pointer RowStates::Find(OpKernelContext* ctx, int shard) const {
  const Place& place = places_[shard];
  RowState* found = nullptr;
  if (place.name.empty() ||
      !ctx->resource_manager()->Lookup(place.ContainerOf(ctx), place.name, &found).ok()) {
    return Pointer();
  }
  return Pointer(found);
}

Status RowStates::FindOrMake(OpKernelContext* ctx, int shard, const Tensor& table,
                             Pointer* state) const {
  const Place& place = places_[shard];
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

void RowStates::Drop(OpKernelContext* ctx, int shard) const {
  const Place& place = places_[shard];
  // Another step may have dropped it already.
  ctx->resource_manager()->Delete<RowState>(place.ContainerOf(ctx), place.name).IgnoreError();
}

const std::string& RowStates::Place::ContainerOf(OpKernelContext* ctx) const {
  return container.empty() ? ctx->resource_manager()->default_container() : container;
}

}  // namespace graph_opt
