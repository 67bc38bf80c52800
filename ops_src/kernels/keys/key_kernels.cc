#include <algorithm>
#include <cstdint>
#include <string>

#include "initial/initial_rows.h"
#include "kernels/kernel_names.h"
#include "kernels/keys/key_index_resource.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/tensorflow_compat.h"
#include "keys/key_index.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class KeyRowsKernel : public OpKernel {
 public:
  explicit KeyRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    tensorflow::int64 stream;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("initial", &initial_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("first", &values_.first));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("second", &values_.second));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("stream", &stream));
    values_.distribution = initial_ == "uniform"  ? Distribution::kUniform
                           : initial_ == "normal" ? Distribution::kNormal
                                                  : Distribution::kTruncatedNormal;
    values_.key = static_cast<uint64_t>(stream);
    values_.column = 0;
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& keys = ctx->input(3);
    Tensor* rows = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, keys.shape(), &rows));
    VariableTables variables;
    OP_REQUIRES_OK(ctx, variables.Open(ctx, 0, 2, VariableTables::kUpdate));
    Tensor row_keys = variables[0];
    Tensor table = variables[1];
    const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, 1);
    OP_REQUIRES(ctx,
                row_keys.dtype() == tensorflow::DT_INT64 && table.dtype() == tensorflow::DT_FLOAT &&
                    table.dims() == 2 && row_keys.NumElements() == table.dim_size(0) + 1,
                errors::InvalidArgument(name(), ": variable '", handle.name(), "' has shape ",
                                        table.shape().DebugString(), ", and its keys have ",
                                        row_keys.shape().DebugString()));
    tensorflow::core::RefCountPtr<KeyIndexResource> resource;
    OP_REQUIRES_OK(ctx, KeyIndexResource::Open(ctx, 2, &resource));
    const tensorflow::mutex_lock lock(*resource->mutex());
    KeyIndex* index = nullptr;
    Status found = resource->UpToDate(row_keys, &index);
    if (found.ok()) found = Find(ctx, index, keys, &row_keys, &table, rows);
    OP_REQUIRES(ctx, found.ok(),
                Status(found.code(), name() + ": variable '" + handle.name() +
                                         "': " + std::string(found.message())));
  }

 private:
  Status Find(OpKernelContext* ctx, KeyIndex* index, const Tensor& keys, Tensor* row_keys,
              Tensor* table, Tensor* rows) const {
    const int64_t count = keys.NumElements();
    int64_t* const found = MutableNumbersOf(rows);
    if (!ctx->input(4).scalar<bool>()()) {
      index->Find(NumbersOf(keys), count, found);
      return Status();
    }
    const int64_t before = index->size();
    int64_t* const numbers = MutableNumbersOf(row_keys);
    TF_RETURN_IF_ERROR(ToTensorFlow(
        index->FindOrAdd(NumbersOf(keys), count, table->dim_size(0), found, numbers + 1)));
    Begin(ctx, numbers + 1 + before, index->size() - before, table->dim_size(1),
          table->flat<float>().data() + before * table->dim_size(1));
    numbers[0] = index->size();
    return Status();
  }

  // Writes the first values of new rows, one after another.
  void Begin(OpKernelContext* ctx, const int64_t* keys, int64_t count, int64_t width,
             float* rows) const {
    if (initial_ == "none") return;
    if (initial_ == "constant") {
      std::fill(rows, rows + count * width, values_.first);
      return;
    }
    InitialValues values = values_;
    values.width = width;
    DeviceThreads threads(ctx);
    WriteInitialRows(values, keys, count, &threads, rows);
  }

  std::string initial_;
  InitialValues values_;
};

REGISTER_KERNEL_BUILDER(Name("KeyIndexHandleOp").Device(tensorflow::DEVICE_CPU),
                        tensorflow::ResourceHandleOp<KeyIndexResource>);
REGISTER_KERNEL_BUILDER(Name("ResourceKeyRows").Device(tensorflow::DEVICE_CPU), KeyRowsKernel);

}  // namespace
}  // namespace graph_opt
