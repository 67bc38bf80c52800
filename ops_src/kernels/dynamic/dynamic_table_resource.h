#ifndef GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_TABLE_RESOURCE_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_TABLE_RESOURCE_H_

#include <memory>
#include <string>

#include "dynamic/dynamic_table.h"
#include "dynamic/dynamic_table_options.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/mutex.h"

namespace graph_opt {

// The dynamic table behind the handle of a variable: a resource of the handle's container and name,
// whatever type the handle says. So placement, colocation and gradients take it as any resource
// variable.
class DynamicTableResource : public tensorflow::ResourceBase {
 public:
  typedef tensorflow::core::RefCountPtr<DynamicTableResource> Pointer;

  // Makes one without a table if there is none.
  static tensorflow::Status FindOrMake(tensorflow::OpKernelContext* ctx,
                                       const tensorflow::ResourceHandle& handle, Pointer* resource);

  std::string DebugString() const override;

  // The table that was made with these options, whose JSON is compared; a new one if there is none,
  // or one with others: of a script that has changed since.
  std::shared_ptr<DynamicTable> TableWith(const std::string& json,
                                          const DynamicTableOptions& options);

  // Null before the first call of TableWith.
  std::shared_ptr<DynamicTable> table() const;

  // Updates share it, unless they are to run alone.
  tensorflow::mutex* update_mutex() { return &update_mutex_; }

 private:
  mutable tensorflow::mutex mutex_;
  tensorflow::mutex update_mutex_;
  std::shared_ptr<DynamicTable> table_;  // guarded by mutex_
  std::string json_;                     // guarded by mutex_
};

// A slot of a dynamic table, behind a handle of its own.
class DynamicSlotResource : public tensorflow::ResourceBase {
 public:
  DynamicSlotResource(DynamicTableResource::Pointer table, std::string name)
      : table_(std::move(table)), name_(std::move(name)) {}

  // Behind this handle, unless that slot of that table is there already.
  static tensorflow::Status Make(tensorflow::OpKernelContext* ctx,
                                 const tensorflow::ResourceHandle& handle,
                                 DynamicTableResource::Pointer table, const std::string& name);

  std::string DebugString() const override { return "slot '" + name_ + "' of a dynamic table"; }

  DynamicTableResource* table() const { return table_.get(); }
  const std::string& name() const { return name_; }

 private:
  const DynamicTableResource::Pointer table_;
  const std::string name_;
};

// What a handle refers to: a dynamic table, or a slot of one.
struct OpenDynamicTable {
  std::shared_ptr<DynamicTable> table;  // null: nothing that is initialized
  int slot = -1;                        // of the table, or the table itself
  DynamicTableResource::Pointer resource;
};

// Finds it, if there is one.
OpenDynamicTable FindDynamicTable(tensorflow::OpKernelContext* ctx,
                                  const tensorflow::ResourceHandle& handle);

// Fails if there is none, or it is not initialized, or elsewhere. `input` is the handle.
tensorflow::Status OpenTableOrSlot(tensorflow::OpKernelContext* ctx, int input,
                                   OpenDynamicTable* open);

// The same, but a slot is not a table.
tensorflow::Status OpenTable(tensorflow::OpKernelContext* ctx, int input, OpenDynamicTable* open);
tensorflow::Status OpenTable(tensorflow::OpKernelContext* ctx, int input,
                             std::shared_ptr<DynamicTable>* table);

// Index of the slot of this table that the input is the handle of. Fails if it is no such slot.
tensorflow::Status OpenSlotOf(tensorflow::OpKernelContext* ctx, int input,
                              const DynamicTable& table, int* slot);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_TABLE_RESOURCE_H_
