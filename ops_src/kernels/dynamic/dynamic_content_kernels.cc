#include <memory>
#include <string>
#include <vector>

#include "dynamic/table_snapshot.h"
#include "kernels/dynamic/dynamic_inputs.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/dynamic/table_kernel.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

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
    int64_t first;
    int64_t most;
    OP_REQUIRES_OK(ctx, ReadNumber(ctx, 1 + num_slots(), "first has", &first));
    OP_REQUIRES_OK(ctx, ReadNumber(ctx, 2 + num_slots(), "count has", &most));
    OP_REQUIRES(ctx, first >= 0 && most >= -1,
                errors::InvalidArgument(name(), ": first is ", first, " and count ", most,
                                        "; need at least 0 and -1"));
    SnapshotPart part;
    part.first = first;
    if (most >= 0) part.count = most;
    const std::shared_ptr<TableSnapshot> snapshot = table->Snapshot(part);
    const int64_t count = snapshot->size();
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
    snapshot->Read(0, count, block);
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

int64_t BytesToWrite(const DynamicTable& table, const DynamicTable::Contents& contents) {
  const int64_t rows_of_key = 1 + static_cast<int64_t>(contents.slots.size());
  const int64_t row_bytes = rows_of_key * table.dim() * static_cast<int64_t>(sizeof(float));
  return table.BytesToFind(contents.num_keys) + 2 * contents.num_keys * row_bytes;
}

class ImportKernel : public ContentKernel {
 public:
  using ContentKernel::ContentKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<DynamicTable> table;
    std::vector<int> slots;
    OP_REQUIRES_OK(ctx, Open(ctx, &table, &slots));
    DynamicTable::Contents contents;
    contents.slots.assign(table->num_slots(), nullptr);
    OP_REQUIRES_OK(ctx, ReadKeys(ctx, 1 + num_slots(), &contents.keys, &contents.num_keys));
    const int64_t n = contents.num_keys;
    if (ctx->input(2 + num_slots()).NumElements() > 0) {
      OP_REQUIRES_OK(
          ctx, ReadRows(ctx, 2 + num_slots(), "values have", n, table->dim(), &contents.weights));
    }
    for (int i = 0; i < num_slots(); ++i) {
      OP_REQUIRES_OK(ctx, ReadRows(ctx, 3 + num_slots() + i, "slot values have", n, table->dim(),
                                   &contents.slots[slots[i]]));
    }
    const int numbers = 3 + 2 * num_slots();
    OP_REQUIRES_OK(ctx,
                   ReadNumbersIfAny(ctx, numbers, "frequencies have", n, &contents.frequencies));
    OP_REQUIRES_OK(ctx, ReadNumbersIfAny(ctx, numbers + 1, "versions have", n, &contents.versions));
    DeviceThreads threads(ctx, BytesToWrite(*table, contents));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), table->Import(contents, &threads)));
  }
};

class ExportFilteredKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext* ctx, DynamicTable* table) override {
    std::vector<FilteredKey> filtered;
    {
      const DynamicTable::ExclusiveLock lock(table);
      filtered = table->FilteredKeys();
    }
    const int64_t count = static_cast<int64_t>(filtered.size());
    int64_t* outputs[3];
    for (int i = 0; i < 3; ++i) {
      Tensor* tensor = nullptr;
      TF_RETURN_IF_ERROR(ctx->allocate_output(i, TensorShape({count}), &tensor));
      outputs[i] = Int64sOf(tensor);
    }
    for (int64_t i = 0; i < count; ++i) {
      outputs[0][i] = filtered[i].key;
      outputs[1][i] = filtered[i].frequency;
      outputs[2][i] = filtered[i].version;
    }
    return Status();
  }
};

class ImportFilteredKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext* ctx, DynamicTable* table) override {
    int64_t n;
    const int64_t* keys;
    const int64_t* frequencies;
    const int64_t* versions;
    TF_RETURN_IF_ERROR(ReadKeys(ctx, 1, &keys, &n));
    TF_RETURN_IF_ERROR(ReadNumbers(ctx, 2, "frequencies have", n, &frequencies));
    TF_RETURN_IF_ERROR(ReadNumbersIfAny(ctx, 3, "versions have", n, &versions));
    std::vector<FilteredKey> filtered;
    for (int64_t i = 0; i < n; ++i) {
      filtered.push_back(
          FilteredKey{keys[i], frequencies[i], versions == nullptr ? -1 : versions[i]});
    }
    table->RestoreFilteredKeys(filtered.data(), n);
    return Status();
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
    DynamicTable::Contents contents;
    contents.insert = insert_;
    const float* rows;
    OP_REQUIRES_OK(ctx, ReadKeys(ctx, 1, &contents.keys, &contents.num_keys));
    OP_REQUIRES_OK(ctx, ReadRows(ctx, 2, "values have", contents.num_keys, table->dim(), &rows));
    if (open.slot < 0) {
      contents.weights = rows;
    } else {
      contents.slots.assign(open.slot + 1, nullptr);
      contents.slots.back() = rows;
    }
    DeviceThreads threads(ctx, BytesToWrite(*table, contents));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), table->Import(contents, &threads)));
  }

 private:
  bool insert_ = true;
};

class EraseKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext* ctx, DynamicTable* table) override {
    const int64_t* keys;
    int64_t n;
    TF_RETURN_IF_ERROR(ReadKeys(ctx, 1, &keys, &n));
    DeviceThreads threads(ctx, table->BytesToFind(n));
    table->Erase(keys, n, &threads);
    return Status();
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
