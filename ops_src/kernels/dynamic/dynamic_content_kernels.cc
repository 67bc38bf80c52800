#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dynamic/table_snapshot.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

Status ShapeIs(const std::string& op, const char* what, const Tensor& tensor,
               const TensorShape& need) {
  if (tensor.shape() == need) return Status();
  return errors::InvalidArgument(op, ": ", what, " have shape ", tensor.shape().DebugString(),
                                 "; need ", need.DebugString());
}

// Of numbers that may be left out.
Status ReadNumbers(const std::string& op, const char* what, const Tensor& tensor, int64_t count,
                   const int64_t** numbers) {
  *numbers = nullptr;
  if (tensor.NumElements() == 0) return Status();
  TF_RETURN_IF_ERROR(ShapeIs(op, what, tensor, TensorShape({count})));
  *numbers = Int64sOf(tensor);
  return Status();
}

// An op over a table and some of its slots.
class ContentKernel : public OpKernel {
 public:
  explicit ContentKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_slots", &num_slots_));
  }

 protected:
  int num_slots() const { return num_slots_; }

  Status Open(OpKernelContext* ctx, std::shared_ptr<DynamicTable>* table,
              std::vector<int>* slots) const {
    TF_RETURN_IF_ERROR(OpenTable(ctx, 0, table));
    slots->resize(num_slots_);
    for (int i = 0; i < num_slots_; ++i) {
      TF_RETURN_IF_ERROR(OpenSlotOf(ctx, 1 + i, **table, &(*slots)[i]));
    }
    return Status();
  }

 private:
  int num_slots_ = 0;
};

class ExportKernel : public ContentKernel {
 public:
  using ContentKernel::ContentKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<DynamicTable> table;
    std::vector<int> slots;
    OP_REQUIRES_OK(ctx, Open(ctx, &table, &slots));
    const int64_t first = *Int64sOf(ctx->input(1 + num_slots()));
    const int64_t most = *Int64sOf(ctx->input(2 + num_slots()));
    OP_REQUIRES(ctx, first >= 0 && most >= -1,
                errors::InvalidArgument(name(), ": first is ", first, " and count ", most,
                                        "; need at least 0 and -1"));
    const std::shared_ptr<TableSnapshot> snapshot = table->Snapshot();
    const int64_t left = std::max<int64_t>(snapshot->size() - first, 0);
    const int64_t count = most < 0 ? left : std::min(most, left);
    const int first_numbers = 2 + num_slots();
    TableSnapshot::Block block;
    block.slots.assign(table->num_slots(), nullptr);
    OP_REQUIRES_OK(ctx, Allocate(ctx, 0, count, &block.keys));
    OP_REQUIRES_OK(ctx, AllocateRows(ctx, 1, count, table->dim(), &block.weights));
    for (int i = 0; i < num_slots(); ++i) {
      OP_REQUIRES_OK(ctx, AllocateRows(ctx, 2 + i, count, table->dim(), &block.slots[slots[i]]));
    }
    OP_REQUIRES_OK(ctx, Allocate(ctx, first_numbers, count, &block.frequencies));
    OP_REQUIRES_OK(ctx, Allocate(ctx, first_numbers + 1, count, &block.versions));
    snapshot->Read(first, count, block);
  }

 private:
  static Status Allocate(OpKernelContext* ctx, int output, int64_t count, int64_t** numbers) {
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, TensorShape({count}), &tensor));
    *numbers = Int64sOf(tensor);
    return Status();
  }

  static Status AllocateRows(OpKernelContext* ctx, int output, int64_t count, int64_t dim,
                             float** rows) {
    Tensor* tensor = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, TensorShape({count, dim}), &tensor));
    *rows = tensor->flat<float>().data();
    return Status();
  }
};

class ImportKernel : public ContentKernel {
 public:
  using ContentKernel::ContentKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<DynamicTable> table;
    std::vector<int> slots;
    OP_REQUIRES_OK(ctx, Open(ctx, &table, &slots));
    const Tensor& keys = ctx->input(1 + num_slots());
    const Tensor& values = ctx->input(2 + num_slots());
    const int64_t n = keys.NumElements();
    const TensorShape rows({n, table->dim()});
    OP_REQUIRES_OK(ctx, ShapeIs(name(), "keys", keys, TensorShape({n})));
    OP_REQUIRES_OK(ctx, ShapeIs(name(), "values", values, rows));
    DynamicTable::Contents contents;
    contents.keys = Int64sOf(keys);
    contents.num_keys = n;
    contents.weights = values.flat<float>().data();
    contents.slots.assign(table->num_slots(), nullptr);
    for (int i = 0; i < num_slots(); ++i) {
      const Tensor& of_slot = ctx->input(3 + num_slots() + i);
      OP_REQUIRES_OK(ctx, ShapeIs(name(), "slot values", of_slot, rows));
      contents.slots[slots[i]] = of_slot.flat<float>().data();
    }
    const int numbers = 3 + 2 * num_slots();
    OP_REQUIRES_OK(
        ctx, ReadNumbers(name(), "frequencies", ctx->input(numbers), n, &contents.frequencies));
    OP_REQUIRES_OK(ctx,
                   ReadNumbers(name(), "versions", ctx->input(numbers + 1), n, &contents.versions));
    DeviceThreads threads(ctx);
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), table->Import(contents, &threads)));
  }
};

class ExportFilteredKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, OpenTable(ctx, 0, &table));
    std::vector<FilteredKey> filtered;
    {
      const DynamicTable::ExclusiveLock lock(table.get());
      filtered = table->FilteredKeys();
    }
    const int64_t count = static_cast<int64_t>(filtered.size());
    int64_t* outputs[3];
    for (int i = 0; i < 3; ++i) {
      Tensor* tensor = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, TensorShape({count}), &tensor));
      outputs[i] = Int64sOf(tensor);
    }
    for (int64_t i = 0; i < count; ++i) {
      outputs[0][i] = filtered[i].key;
      outputs[1][i] = filtered[i].frequency;
      outputs[2][i] = filtered[i].version;
    }
  }
};

class ImportFilteredKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, OpenTable(ctx, 0, &table));
    const Tensor& keys = ctx->input(1);
    const int64_t n = keys.NumElements();
    const int64_t* versions = nullptr;
    OP_REQUIRES_OK(ctx, ShapeIs(name(), "keys", keys, TensorShape({n})));
    OP_REQUIRES_OK(ctx, ShapeIs(name(), "frequencies", ctx->input(2), TensorShape({n})));
    OP_REQUIRES_OK(ctx, ReadNumbers(name(), "versions", ctx->input(3), n, &versions));
    std::vector<FilteredKey> filtered;
    for (int64_t i = 0; i < n; ++i) {
      filtered.push_back(FilteredKey{Int64sOf(keys)[i], Int64sOf(ctx->input(2))[i],
                                     versions == nullptr ? -1 : versions[i]});
    }
    table->RestoreFilteredKeys(filtered.data(), n);
  }
};

class AssignKernel : public OpKernel {
 public:
  explicit AssignKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("insert", &insert_));
  }

  void Compute(OpKernelContext* ctx) override {
    OpenDynamicTable open;
    OP_REQUIRES_OK(ctx, OpenTableOrSlot(ctx, 0, &open));
    DynamicTable* const table = open.table.get();
    const Tensor& keys = ctx->input(1);
    const Tensor& values = ctx->input(2);
    const int64_t n = keys.NumElements();
    OP_REQUIRES_OK(ctx, ShapeIs(name(), "keys", keys, TensorShape({n})));
    OP_REQUIRES_OK(ctx, ShapeIs(name(), "values", values, TensorShape({n, table->dim()})));
    DeviceThreads threads(ctx);
    std::vector<int64_t> some_keys(Int64sOf(keys), Int64sOf(keys) + n);
    std::vector<float> some_values;
    const float* rows = values.flat<float>().data();
    if (!insert_) {
      OP_REQUIRES_OK(ctx, KeepThoseWithRows(table, &threads, rows, &some_keys, &some_values));
      rows = some_values.data();
    }
    DynamicTable::Contents contents;
    contents.keys = some_keys.data();
    contents.num_keys = static_cast<int64_t>(some_keys.size());
    if (open.slot < 0) {
      contents.weights = rows;
    } else {
      contents.slots.assign(open.slot + 1, nullptr);
      contents.slots.back() = rows;
    }
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), table->Import(contents, &threads)));
  }

 private:
  Status KeepThoseWithRows(DynamicTable* table, Parallel* parallel, const float* values,
                           std::vector<int64_t>* keys, std::vector<float>* kept) const {
    DynamicTable::Find find;
    find.keys = keys->data();
    find.num_keys = static_cast<int64_t>(keys->size());
    find.purpose = DynamicTable::Purpose::kRead;
    std::vector<int64_t> rows(keys->size());
    std::shared_ptr<Hold> hold;
    TF_RETURN_IF_ERROR(StatusOfOp(name(), table->FindRows(find, parallel, rows.data(), &hold)));
    const DynamicTable::ReadLock lock(table);
    const int64_t first_row = table->rows().first_row;
    size_t count = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < first_row) continue;
      (*keys)[count++] = (*keys)[i];
      kept->insert(kept->end(), values + i * table->dim(), values + (i + 1) * table->dim());
    }
    keys->resize(count);
    return Status();
  }

  bool insert_ = true;
};

class EraseKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<DynamicTable> table;
    OP_REQUIRES_OK(ctx, OpenTable(ctx, 0, &table));
    const Tensor& keys = ctx->input(1);
    OP_REQUIRES_OK(ctx, ShapeIs(name(), "keys", keys, TensorShape({keys.NumElements()})));
    table->Erase(Int64sOf(keys), keys.NumElements());
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("DynamicTableExport"), ExportKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableImport"), ImportKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableExportFiltered"), ExportFilteredKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableImportFiltered"), ImportFilteredKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableAssign"), AssignKernel);
REGISTER_KERNEL_BUILDER(CPU("DynamicTableErase"), EraseKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
