#ifndef GRAPH_OPT_KERNELS_DYNAMIC_EVICTED_OUTPUTS_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_EVICTED_OUTPUTS_H_

#include <algorithm>

#include "dynamic/evicted_rows.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// Writes keys, [n], and what their rows were, [n, dim], to two outputs.
inline tensorflow::Status WriteEvicted(tensorflow::OpKernelContext* ctx, int first_output,
                                       const EvictedRows& evicted, int64_t dim) {
  const int64_t count = static_cast<int64_t>(evicted.keys.size());
  tensorflow::Tensor* keys = nullptr;
  tensorflow::Tensor* values = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(first_output, tensorflow::TensorShape({count}), &keys));
  TF_RETURN_IF_ERROR(
      ctx->allocate_output(first_output + 1, tensorflow::TensorShape({count, dim}), &values));
  std::copy(evicted.keys.begin(), evicted.keys.end(), Int64sOf(keys));
  std::copy(evicted.weights.begin(), evicted.weights.end(), values->flat<float>().data());
  return tensorflow::Status();
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_EVICTED_OUTPUTS_H_
