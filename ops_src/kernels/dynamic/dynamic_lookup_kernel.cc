#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/dynamic/dynamic_inputs.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/dynamic/evicted_outputs.h"
#include "kernels/dynamic/table_kernel.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "rows/row_kernels.h"
#include "scratch/scratch_array.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Rows are worth handing to a thread from about this many bytes on.
constexpr int64_t kLeastBytes = 64 << 10;

// May hand out what the table gave up for new rows, too.
template <bool kHandsOut>
class DynamicLookupKernel : public TableKernel {
 public:
  using TableKernel::TableKernel;

 private:
  Status Run(OpKernelContext* ctx, DynamicTable* table) override {
    const Tensor& keys = ctx->input(1);
    DynamicTable::Find find;
    const WideKeys wide(keys);
    find.keys = wide.data();
    find.num_keys = keys.NumElements();
    TF_RETURN_IF_ERROR(ReadInputs(ctx, *table, &find));
    TensorShape shape = keys.shape();
    shape.AddDim(table->dim());
    Tensor* values = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, shape, &values));
    const int64_t row_bytes = table->dim() * static_cast<int64_t>(sizeof(float));
    DeviceThreads threads(ctx, table->BytesToFind(find.num_keys) + 2 * find.num_keys * row_bytes);
    ScratchArray<int64_t> rows(find.num_keys);
    std::shared_ptr<Hold> hold;
    EvictedRows evicted;
    if (kHandsOut) find.evicted = &evicted;
    {
      const DynamicTable::ReadLock lock(table);
      TF_RETURN_IF_ERROR(StatusOfOp(name(), table->FindRows(find, &threads, rows.data(), &hold)));
      CopyRows(*table, find, rows.data(), &threads, values->flat<float>().data());
    }
    return kHandsOut ? WriteEvicted(ctx, 1, evicted, table->dim()) : Status();
  }

  Status ReadInputs(OpKernelContext* ctx, const DynamicTable& table,
                    DynamicTable::Find* find) const {
    const Tensor& counts = ctx->input(2);
    const Tensor& defaults = ctx->input(3);
    const int64_t n = find->num_keys;
    const std::string& of = table.options().name;
    if (counts.NumElements() != 0 && counts.NumElements() != n) {
      return errors::InvalidArgument(name(), ": ", counts.NumElements(), " counts for ", n,
                                     " keys of dynamic table '", of,
                                     "'; need one for each, or none");
    }
    if (defaults.NumElements() != 0 && defaults.NumElements() != n * table.dim()) {
      return errors::InvalidArgument(
          name(), ": the initial values of ", n, " keys of dynamic table '", of, "' have shape ",
          defaults.shape().DebugString(), "; need [", n, ", ", table.dim(), "], or none");
    }
    if (counts.NumElements() > 0) find->counts = Int64sOf(counts);
    if (defaults.NumElements() > 0) find->initial = defaults.flat<float>().data();
    return ReadInsert(ctx, 4, &find->purpose);
  }

  static void CopyRows(const DynamicTable& table, const DynamicTable::Find& find,
                       const int64_t* rows, Parallel* parallel, float* values) {
    const int64_t count = find.num_keys;
    const int64_t dim = table.dim();
    const int64_t row_bytes = dim * static_cast<int64_t>(sizeof(float));
    const int64_t most_pieces = count * row_bytes / kLeastBytes + 1;
    const int64_t pieces = std::min<int64_t>(most_pieces, 4 * parallel->num_threads());
    const RowKernels& kernels = BestRowKernels();
    const DynamicTable::Rows from = table.rows();
    parallel->Run(pieces, [&](int64_t piece) {
      const int64_t begin = count * piece / pieces;
      const int64_t end = count * (piece + 1) / pieces;
      SingleRows some = {};
      some.ids = rows + begin;
      some.wide_ids = true;
      some.count = end - begin;
      some.rows = from.base;
      some.num_rows = static_cast<uint64_t>(from.end);
      some.row_bytes = row_bytes;
      some.row_stride = from.stride;
      some.pooled = values + begin * dim;
      some.pooled_bytes = row_bytes;
      kernels.copy_rows(some);
      if (find.initial == nullptr || find.purpose == DynamicTable::Purpose::kInsert) return;
      for (int64_t i = begin; i < end; ++i) {
        // Row 0 is that of keys without permission, whatever they would begin with.
        if (rows[i] == 0 || rows[i] >= from.first_row) continue;
        std::memcpy(values + i * dim, find.initial + i * dim, row_bytes);
      }
    });
  }
};

REGISTER_KERNEL_BUILDER(Name("DynamicTableLookup").Device(tensorflow::DEVICE_CPU),
                        DynamicLookupKernel<false>);
REGISTER_KERNEL_BUILDER(Name("DynamicTableLookupAndEvict").Device(tensorflow::DEVICE_CPU),
                        DynamicLookupKernel<true>);

}  // namespace
}  // namespace graph_opt
