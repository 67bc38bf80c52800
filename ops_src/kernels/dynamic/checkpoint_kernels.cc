#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "dynamic/dynamic_table.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/dynamic/stored_slot.h"
#include "kernels/dynamic/table_kernel.h"
#include "kernels/dynamic/table_restore.h"
#include "kernels/dynamic/table_save.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// A table, slots of it, and their names in a checkpoint.
class CheckpointKernel : public OpKernel {
 public:
  explicit CheckpointKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_slots;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_slots", &num_slots));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tensor_name", &tensor_name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot_names", &slot_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("changes", &changes_));
    OP_REQUIRES(ctx, slot_names_.size() == static_cast<size_t>(num_slots),
                errors::InvalidArgument(name(), ": ", num_slots, " slots have ", slot_names_.size(),
                                        " names"));
    std::vector<DataType> dtypes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot_dtypes", &dtypes));
    OP_REQUIRES(
        ctx, dtypes.empty() || dtypes.size() == slot_names_.size(),
        errors::InvalidArgument(name(), ": ", num_slots, " slots have ", dtypes.size(), " dtypes"));
    stored_.resize(num_slots);
    for (size_t i = 0; i < dtypes.size(); ++i) stored_[i].dtype = dtypes[i];
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& prefix = ctx->input(0);
    OP_REQUIRES(ctx, prefix.NumElements() == 1,
                errors::InvalidArgument(name(), ": the prefix has shape ",
                                        prefix.shape().DebugString(), ", not []"));
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, OpenTable(ctx, 1, &table));
    std::vector<int> slots(slot_names_.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      OP_REQUIRES_OK(ctx, OpenSlotOf(ctx, 2 + i, *table, &slots[i]));
    }
    OP_REQUIRES_OK(
        ctx, Run(ctx, std::string(prefix.flat<tensorflow::tstring>()(0)), table.get(), slots));
  }

 protected:
  virtual Status Run(OpKernelContext* ctx, const std::string& prefix, DynamicTable* table,
                     const std::vector<int>& slots) = 0;

  std::string tensor_name_;
  std::vector<std::string> slot_names_;
  std::vector<StoredSlot> stored_;
  bool changes_;
};

class SaveKernel : public CheckpointKernel {
 public:
  explicit SaveKernel(OpKernelConstruction* ctx) : CheckpointKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("key_dtype", &key_dtype_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("evict", &evict_));
    std::vector<tensorflow::int64> widths;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("slot_widths", &widths));
    OP_REQUIRES(ctx, widths.empty() || widths.size() == stored_.size(),
                errors::InvalidArgument(name(), ": ", stored_.size(), " slots have ", widths.size(),
                                        " widths"));
    for (size_t i = 0; i < widths.size(); ++i) stored_[i].width = widths[i];
  }

 private:
  Status Run(OpKernelContext* ctx, const std::string& prefix, DynamicTable* table,
             const std::vector<int>& slots) override {
    DeviceThreads threads(ctx);
    if (evict_) table->Evict(table->step(), &threads, nullptr);
    if (changes_ && !table->tracks_changes()) {
      return errors::FailedPrecondition(
          "table '", table->options().name,
          "' was initialized since the last full checkpoint: write another one first");
    }
    BundleFile file(ctx->env(), prefix);
    TF_RETURN_IF_ERROR(file.Open());
    TableSave save(table, key_dtype_, changes_, &file);
    if (!tensor_name_.empty()) TF_RETURN_IF_ERROR(save.WriteRows(tensor_name_));
    for (size_t i = 0; i < slots.size(); ++i) {
      TF_RETURN_IF_ERROR(save.WriteSlot(slot_names_[i], slots[i], stored_[i]));
    }
    return file.Finish();
  }

  DataType key_dtype_;
  bool evict_;
};

class RestoreKernel : public CheckpointKernel {
 public:
  explicit RestoreKernel(OpKernelConstruction* ctx) : CheckpointKernel(ctx) {
    tensorflow::int64 part;
    tensorflow::int64 num_parts;
    std::string rule;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("part", &part));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_parts", &num_parts));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("owner_rule", &rule));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rows", &rows_));
    OP_REQUIRES(ctx, part < num_parts,
                errors::InvalidArgument(name(), ": there is no part ", part, " of ", num_parts));
    owner_.part = static_cast<int>(part);
    owner_.parts = static_cast<int>(num_parts);
    owner_.rule = rule == "key" ? KeyOwners::kMod : KeyOwners::kMod1000;
  }

 private:
  Status Run(OpKernelContext* ctx, const std::string& prefix, DynamicTable* table,
             const std::vector<int>& slots) override {
    StoredTensors stored(ctx->env(), prefix);
    TF_RETURN_IF_ERROR(stored.status());
    DeviceThreads threads(ctx);
    TableRestore restore(&stored, table, owner_, &threads);
    if (rows_) TF_RETURN_IF_ERROR(restore.ReadRows(tensor_name_, changes_));
    for (size_t i = 0; i < slots.size(); ++i) {
      bool found = false;
      TF_RETURN_IF_ERROR(
          restore.ReadSlot(tensor_name_, slot_names_[i], slots[i], stored_[i], &found));
      if (!found && !rows_) {
        return errors::NotFound("Key ", SlotName(i), "-keys not found in checkpoint '", prefix,
                                "', nor of a part of '", tensor_name_, "'");
      }
      if (!rows_ && restore.num_slot_keys() > 0 && table->size() == 0) {
        return errors::FailedPrecondition(
            "checkpoint '", prefix, "' has slot ", SlotName(i), " of '", tensor_name_, "' for ",
            restore.num_slot_keys(),
            " keys, but the table has no rows: restore it, too, and first");
      }
      if (!found && owner_.part == 0) {
        LOG(WARNING) << "checkpoint '" << prefix << "' has no slot " << SlotName(i) << " of '"
                     << tensor_name_ << "': it begins with its initial value";
      }
    }
    return Status();
  }

  // Of the whole table.
  std::string SlotName(size_t slot) const {
    return absl::StrReplaceAll(slot_names_[slot], {{"{}", tensor_name_}});
  }

  KeyOwner owner_;
  bool rows_;
};

class TrackChangesKernel : public TableKernel {
 public:
  explicit TrackChangesKernel(OpKernelConstruction* ctx) : TableKernel(ctx) {
    std::string action;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("action", &action));
    begins_ = action == "begin";
  }

 private:
  Status Run(OpKernelContext*, DynamicTable* table) override {
    if (begins_) {
      table->BeginCheckpoint();
    } else {
      table->EndCheckpoint();
    }
    return Status();
  }

  bool begins_;
};

REGISTER_KERNEL_BUILDER(Name("DynamicTableSave").Device(tensorflow::DEVICE_CPU), SaveKernel);
REGISTER_KERNEL_BUILDER(Name("DynamicTableRestore").Device(tensorflow::DEVICE_CPU), RestoreKernel);
REGISTER_KERNEL_BUILDER(Name("DynamicTableTrackChanges").Device(tensorflow::DEVICE_CPU),
                        TrackChangesKernel);

}  // namespace
}  // namespace graph_opt
