#ifndef GRAPH_OPT_KERNELS_BUFFER_TENSOR_BUFFER_INPUTS_H_
#define GRAPH_OPT_KERNELS_BUFFER_TENSOR_BUFFER_INPUTS_H_

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "kernels/buffer/tensor_buffer_resource.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace graph_opt {

// Finds the buffer that an op's attributes name, and remembers it.
class BufferAttrs {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  int64_t capacity() const { return capacity_; }
  const tensorflow::DataTypeVector& dtypes() const { return dtypes_; }

  tensorflow::Status Find(tensorflow::OpKernelContext* ctx, TensorBufferResource** resource);

 private:
  tensorflow::Status Bind(tensorflow::OpKernelContext* ctx);

  tensorflow::int64 capacity_ = 0;
  bool must_agree_ = true;  // a resume sets the capacity, the others must have the same
  tensorflow::DataTypeVector dtypes_;
  std::mutex mutex_;
  tensorflow::core::RefCountPtr<TensorBufferResource> resource_;  // guarded by mutex_
};

constexpr int kOkCode = 0;
constexpr int kFirstErrorCode = 1;  // CANCELLED
constexpr int kLastErrorCode = 16;  // UNAUTHENTICATED

// The value of two inputs called `code` and `message`; the code is at least `least_code`.
tensorflow::Status StatusOf(const tensorflow::OpKernel& kernel, const tensorflow::Tensor& code,
                            const tensorflow::Tensor& message, int least_code,
                            absl::Status* status);

// The value of an input called `place`.
tensorflow::Status PlaceOf(const tensorflow::OpKernel& kernel, const tensorflow::Tensor& place,
                           int64_t* value);

// The value of an input called `capacity`: at least 1.
tensorflow::Status CapacityOf(const tensorflow::OpKernel& kernel,
                              const tensorflow::Tensor& capacity, int64_t* value);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_BUFFER_TENSOR_BUFFER_INPUTS_H_
