#include <cstdint>
#include <string>

#include "initial/initial_rows.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class InitialRowsKernel : public OpKernel {
 public:
  explicit InitialRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string distribution;
    tensorflow::int64 key, column, width;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("distribution", &distribution));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("key", &key));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("column", &column));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("width", &width));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("first", &values_.first));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("second", &values_.second));
    values_.distribution = distribution == "uniform"  ? Distribution::kUniform
                           : distribution == "normal" ? Distribution::kNormal
                                                      : Distribution::kTruncatedNormal;
    values_.key = static_cast<uint64_t>(key);
    values_.column = column;
    values_.width = width;
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& rows = ctx->input(0);
    OP_REQUIRES(ctx, rows.dims() == 1,
                errors::InvalidArgument(name(), ": rows has shape ", rows.shape().DebugString(),
                                        "; need a vector"));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(0, TensorShape({rows.dim_size(0), values_.width}), &output));
    constexpr int64_t kReadMeanwhile = 8;  // values, while one is made
    DeviceThreads threads(ctx, kReadMeanwhile * output->TotalBytes());
    WriteInitialRows(values_,
                     reinterpret_cast<const int64_t*>(rows.flat<tensorflow::int64>().data()),
                     rows.dim_size(0), &threads, output->flat<float>().data());
  }

 private:
  InitialValues values_;
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingInitialRows").Device(tensorflow::DEVICE_CPU),
                        InitialRowsKernel);

}  // namespace
}  // namespace graph_opt
