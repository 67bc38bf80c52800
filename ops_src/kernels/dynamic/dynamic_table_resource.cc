#include "kernels/dynamic/dynamic_table_resource.h"

#include <utility>

#include "kernels/kernel_names.h"
#include "tensorflow/core/framework/device_attributes.pb.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;
using tensorflow::ResourceHandle;

namespace {

template <typename Resource>
tensorflow::core::RefCountPtr<Resource> Lookup(OpKernelContext* ctx, const ResourceHandle& handle) {
  Resource* found = nullptr;
  ctx->resource_manager()->Lookup(handle.container(), handle.name(), &found).IgnoreError();
  return tensorflow::core::RefCountPtr<Resource>(found);
}

}  // namespace

Status DynamicTableResource::FindOrMake(OpKernelContext* ctx, const ResourceHandle& handle,
                                        Pointer* resource) {
  DynamicTableResource* found = nullptr;
  TF_RETURN_IF_ERROR(ctx->resource_manager()->LookupOrCreate<DynamicTableResource>(
      handle.container(), handle.name(), &found, [](DynamicTableResource** made) {
        *made = new DynamicTableResource();
        return Status();
      }));
  resource->reset(found);
  return Status();
}

std::string DynamicTableResource::DebugString() const {
  const std::shared_ptr<DynamicTable> of = table();
  return "dynamic table of " + std::to_string(of == nullptr ? 0 : of->size()) + " keys";
}

std::shared_ptr<DynamicTable> DynamicTableResource::TableWith(const std::string& json,
                                                              const DynamicTableOptions& options) {
  const tensorflow::mutex_lock lock(mutex_);
  if (table_ == nullptr || json_ != json) {
    table_ = std::make_shared<DynamicTable>(options);
    json_ = json;
  }
  return table_;
}

std::shared_ptr<DynamicTable> DynamicTableResource::table() const {
  const tensorflow::tf_shared_lock lock(mutex_);
  return table_;
}

Status DynamicSlotResource::Make(OpKernelContext* ctx, const ResourceHandle& handle,
                                 DynamicTableResource::Pointer table, const std::string& name) {
  const auto found = Lookup<DynamicSlotResource>(ctx, handle);
  if (found != nullptr && found->table() == table.get() && found->name() == name) return Status();
  tensorflow::ResourceMgr* const resources = ctx->resource_manager();
  // That of another table, from before the script changed.
  resources->Delete<DynamicSlotResource>(handle.container(), handle.name()).IgnoreError();
  return resources->Create(handle.container(), handle.name(),
                           new DynamicSlotResource(std::move(table), name));
}

OpenDynamicTable FindDynamicTable(OpKernelContext* ctx, const ResourceHandle& handle) {
  OpenDynamicTable open;
  open.resource = Lookup<DynamicTableResource>(ctx, handle);
  if (open.resource != nullptr) {
    open.table = open.resource->table();
  } else {
    const auto slot = Lookup<DynamicSlotResource>(ctx, handle);
    if (slot == nullptr) return open;
    open.table = slot->table()->table();
    open.slot = open.table == nullptr ? -1 : open.table->SlotIndex(slot->name());
    slot->table()->Ref();
    open.resource.reset(slot->table());
    if (open.slot < 0) open.table = nullptr;
  }
  if (open.table != nullptr && !open.table->is_initialized()) open.table = nullptr;
  return open;
}

Status OpenTableOrSlot(OpKernelContext* ctx, int input, OpenDynamicTable* open) {
  const ResourceHandle& handle = tensorflow::HandleFromInput(ctx, input);
  const std::string& op = ctx->op_kernel().name();
  const std::string& here = ctx->device()->attributes().name();
  if (handle.device() != here) {
    return errors::InvalidArgument(op, ": dynamic table '", handle.name(), "' is on ",
                                   handle.device(), ", the op on ", here, "; need the same");
  }
  *open = FindDynamicTable(ctx, handle);
  if (open->table != nullptr) return Status();
  return errors::FailedPrecondition(op, ": dynamic table '", handle.name(),
                                    "' is not initialized; run its initializer first");
}

Status OpenTable(OpKernelContext* ctx, int input, OpenDynamicTable* open) {
  TF_RETURN_IF_ERROR(OpenTableOrSlot(ctx, input, open));
  if (open->slot < 0) return Status();
  return errors::InvalidArgument(ctx->op_kernel().name(), ": '",
                                 tensorflow::HandleFromInput(ctx, input).name(),
                                 "' is a slot of a dynamic table; need the table");
}

Status OpenTable(OpKernelContext* ctx, int input, std::shared_ptr<DynamicTable>* table) {
  OpenDynamicTable open;
  TF_RETURN_IF_ERROR(OpenTable(ctx, input, &open));
  *table = std::move(open.table);
  return Status();
}

Status OpenSlotOf(OpKernelContext* ctx, int input, const DynamicTable& table, int* slot) {
  OpenDynamicTable open;
  TF_RETURN_IF_ERROR(OpenTableOrSlot(ctx, input, &open));
  if (open.slot < 0 || open.table.get() != &table) {
    return errors::InvalidArgument(ctx->op_kernel().name(), ": '",
                                   tensorflow::HandleFromInput(ctx, input).name(),
                                   "' is not a slot of dynamic table '", table.options().name, "'");
  }
  *slot = open.slot;
  return Status();
}

}  // namespace graph_opt
