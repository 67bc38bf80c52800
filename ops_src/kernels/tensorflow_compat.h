#ifndef GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_
#define GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

// What releases of TensorFlow spell differently, in one place. GRAPH_OPT_TENSORFLOW is the release,
// 2015 for 2.15.

#if GRAPH_OPT_TENSORFLOW >= 2020
#include "absl/synchronization/notification.h"
#else
#include "tensorflow/core/lib/core/notification.h"
#endif

#if GRAPH_OPT_TENSORFLOW >= 2013
#define GRAPH_OPT_STATUS_IS_ABSL 1
#else
#define GRAPH_OPT_STATUS_IS_ABSL 0
#endif

#if GRAPH_OPT_TENSORFLOW < 2000
#include "tensorflow/core/util/overflow.h"

namespace tensorflow {

// TensorFlow 1 tells only friends of Tensor whether others share its memory, among them this
// function for any types: here it fails if they do.
template <typename Device, typename T>
Status EnsureSparseVariableAccess(OpKernelContext* ctx, Var* variable);

struct GraphOptQuestion;

template <>
inline Status EnsureSparseVariableAccess<GraphOptQuestion, GraphOptQuestion>(OpKernelContext*,
                                                                             Var* variable) {
  return variable->tensor()->RefCountIsOne() ? Status() : errors::FailedPrecondition("shared");
}

}  // namespace tensorflow
#endif

namespace graph_opt {

#if GRAPH_OPT_TENSORFLOW >= 2020
using absl::Notification;
#else
using tensorflow::Notification;
#endif

// The status of a functor as TensorFlow's: the same type from TensorFlow 2.13 on.
inline tensorflow::Status ToTensorFlow(const absl::Status& status) {
#if GRAPH_OPT_STATUS_IS_ABSL
  return status;
#else
  if (status.ok()) return tensorflow::Status();
  return tensorflow::Status(static_cast<tensorflow::error::Code>(status.code()),
                            std::string(status.message()));
#endif
}

// The other way round.
inline absl::Status FromTensorFlow(const tensorflow::Status& status) {
#if GRAPH_OPT_STATUS_IS_ABSL
  return status;
#else
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.code()), status.error_message());
#endif
}

inline std::string MessageOf(const tensorflow::Status& status) {
#if GRAPH_OPT_STATUS_IS_ABSL
  return std::string(status.message());
#else
  return status.error_message();
#endif
}

// The status of what `op` called, which is named in the message.
inline tensorflow::Status StatusOfOp(const std::string& op, const absl::Status& status) {
  if (status.ok()) return tensorflow::Status();
  return ToTensorFlow(absl::Status(status.code(), absl::StrCat(op, ": ", status.message())));
}

#if !GRAPH_OPT_STATUS_IS_ABSL
inline tensorflow::Status StatusOfOp(const std::string& op, const tensorflow::Status& status) {
  return StatusOfOp(op, FromTensorFlow(status));
}
#endif

// Whether no other tensor shares the memory of a variable, whose mutex the caller holds.
inline bool OwnsMemory(tensorflow::OpKernelContext* ctx, tensorflow::Var* variable) {
#if GRAPH_OPT_TENSORFLOW < 2000
  typedef tensorflow::GraphOptQuestion Question;
  return tensorflow::EnsureSparseVariableAccess<Question, Question>(ctx, variable).ok();
#else
  static_cast<void>(ctx);
  return variable->tensor()->RefCountIsOne();
#endif
}

// Appends a dimension; fails if the shape has too many elements then.
inline tensorflow::Status AppendDimension(tensorflow::int64 size, tensorflow::TensorShape* shape) {
#if GRAPH_OPT_TENSORFLOW < 2000
  if (tensorflow::MultiplyWithoutOverflow(shape->num_elements(), size) < 0) {
    return tensorflow::errors::InvalidArgument("Encountered overflow when multiplying ",
                                               shape->num_elements(), " with ", size);
  }
  shape->AddDim(size);
  return tensorflow::Status();
#else
  return shape->AddDimWithStatus(size);
#endif
}

// Keeps a resource, of which it takes over a reference, until the step ends.
template <typename Resource>
tensorflow::Status CreateInStep(tensorflow::OpKernelContext* ctx, const std::string& name,
                                Resource* resource) {
#if GRAPH_OPT_TENSORFLOW < 2000
  return ctx->resource_manager()->Create(ctx->step_container()->name(), name, resource);
#else
  return ctx->step_container()->Create(ctx->resource_manager(), name, resource);
#endif
}

// What was kept in the step under this name; the caller gets a reference of its own.
template <typename Resource>
tensorflow::Status LookupInStep(tensorflow::OpKernelContext* ctx, const std::string& name,
                                Resource** resource) {
#if GRAPH_OPT_TENSORFLOW < 2000
  return ctx->resource_manager()->Lookup(ctx->step_container()->name(), name, resource);
#else
  return ctx->step_container()->Lookup(ctx->resource_manager(), name, resource);
#endif
}

// Whether the step is cancelled, or about to be.
inline bool IsCancelled(tensorflow::CancellationManager* manager) {
#if GRAPH_OPT_TENSORFLOW < 2000
  // From the beginning of a cancellation on, no callbacks are taken.
  const tensorflow::CancellationToken token = manager->get_cancellation_token();
  if (!manager->RegisterCallback(token, [] {})) return true;
  manager->DeregisterCallback(token);
  return false;
#else
  return manager->IsCancelling() || manager->IsCancelled();
#endif
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_
