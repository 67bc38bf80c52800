#include "kernels/dynamic/dynamic_inputs.h"

#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

Status ShapeIs(OpKernelContext* ctx, int input, const char* what, const TensorShape& need) {
  const TensorShape& shape = ctx->input(input).shape();
  if (shape == need) return Status();
  return tensorflow::errors::InvalidArgument(ctx->op_kernel().name(), ": ", what, " shape ",
                                             shape.DebugString(), "; need ", need.DebugString());
}

}  // namespace

Status ReadNumber(OpKernelContext* ctx, int input, const char* what, int64_t* number) {
  TF_RETURN_IF_ERROR(ShapeIs(ctx, input, what, TensorShape()));
  *number = *Int64sOf(ctx->input(input));
  return Status();
}

Status ReadInsert(OpKernelContext* ctx, int input, DynamicTable::Purpose* purpose) {
  TF_RETURN_IF_ERROR(ShapeIs(ctx, input, "insert has", TensorShape()));
  const bool insert = ctx->input(input).scalar<bool>()();
  *purpose = insert ? DynamicTable::Purpose::kInsert : DynamicTable::Purpose::kRead;
  return Status();
}

Status ReadKeys(OpKernelContext* ctx, int input, const int64_t** keys, int64_t* count) {
  *count = ctx->input(input).NumElements();
  TF_RETURN_IF_ERROR(ShapeIs(ctx, input, "keys have", TensorShape({*count})));
  *keys = Int64sOf(ctx->input(input));
  return Status();
}

Status ReadNumbers(OpKernelContext* ctx, int input, const char* what, int64_t count,
                   const int64_t** numbers) {
  TF_RETURN_IF_ERROR(ShapeIs(ctx, input, what, TensorShape({count})));
  *numbers = Int64sOf(ctx->input(input));
  return Status();
}

Status ReadNumbersIfAny(OpKernelContext* ctx, int input, const char* what, int64_t count,
                        const int64_t** numbers) {
  *numbers = nullptr;
  if (ctx->input(input).NumElements() == 0) return Status();
  return ReadNumbers(ctx, input, what, count, numbers);
}

Status ReadRows(OpKernelContext* ctx, int input, const char* what, int64_t count, int64_t dim,
                const float** rows) {
  TF_RETURN_IF_ERROR(ShapeIs(ctx, input, what, TensorShape({count, dim})));
  *rows = ctx->input(input).flat<float>().data();
  return Status();
}

}  // namespace graph_opt
