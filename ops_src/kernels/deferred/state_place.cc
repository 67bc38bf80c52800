#include "kernels/deferred/state_place.h"

#include "kernels/kernel_names.h"

namespace graph_opt {

StatePlace::StatePlace(const std::string& entry, bool has_handle) {
  const size_t colon = entry.find(':');
  const bool has_container = colon != std::string::npos;
  if (has_container) container = entry.substr(0, colon);
  const std::string variable = has_container ? entry.substr(colon + 1) : entry;
  // A server may hold a variable of each kind under one name.
  if (!variable.empty()) name = (has_handle ? "resource " : "reference ") + variable;
}

const std::string& StatePlace::ContainerOf(OpKernelContext* ctx) const {
  return container.empty() ? ctx->resource_manager()->default_container() : container;
}

StatePlace::Pointer StatePlace::Find(OpKernelContext* ctx) const {
  RowState* found = nullptr;
  if (name.empty() || !ctx->resource_manager()->Lookup(ContainerOf(ctx), name, &found).ok()) {
    return Pointer();
  }
  return Pointer(found);
}

StatePlace::Pointer StatePlace::FindOfTable(OpKernelContext* ctx) const {
  Pointer state = Find(ctx);
  SlotState* slot = nullptr;
  if (state != nullptr || name.empty() ||
      !ctx->resource_manager()->Lookup(ContainerOf(ctx), name, &slot).ok()) {
    return state;
  }
  const tensorflow::core::ScopedUnref unref(slot);
  RowState* found = nullptr;
  ctx->resource_manager()->Lookup(slot->container(), slot->name(), &found).IgnoreError();
  return Pointer(found);
}

std::string RowStateEntry(const std::string& node, const std::string& shared_name,
                          const std::string& container) {
  const std::string& name = shared_name.empty() ? node : shared_name;
  const bool has_colon = !container.empty() || name.find(':') != std::string::npos;
  return has_colon ? container + ":" + name : name;
}

}  // namespace graph_opt
