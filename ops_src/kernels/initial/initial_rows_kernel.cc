#include <cstdint>
#include <string>

#include "initial/initial_rows.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

Status RowsShape(InferenceContext* c) {
  ShapeHandle rows;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &rows));
  tensorflow::int64 width;
  TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
  c->set_output(0, c->Matrix(c->Dim(rows, 0), width));
  return Status();
}

// Stateful, so that large tables do not become constants of the graph.
REGISTER_OP("GroupEmbeddingInitialRows")
    .Input("rows: int64")
    .Output("values: float")
    .Attr("distribution: {'uniform', 'normal', 'truncated_normal'}")
    .Attr("first: float")
    .Attr("second: float")
    .Attr("key: int")
    .Attr("column: int >= 0 = 0")
    .Attr("width: int >= 0")
    .SetIsStateful()
    .SetShapeFn(RowsShape)
    .Doc(R"doc(
Initial values of rows of a table. Each value depends on its row, its column, the key and the
distribution alone.

rows: Numbers of the rows, or keys.
values: [rows, width].
first: Lower bound, or mean.
second: Upper bound, or standard deviation.
key: Of the table's random numbers.
column: The column of the table to begin with.)doc");

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
