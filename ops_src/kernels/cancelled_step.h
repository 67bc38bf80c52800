#ifndef GRAPH_OPT_KERNELS_CANCELLED_STEP_H_
#define GRAPH_OPT_KERNELS_CANCELLED_STEP_H_

#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

// The status of an op that ends because its step is cancelled, as it has failed elsewhere.
// TensorFlow returns what the step failed with, unless what it failed with elsewhere looks like a
// cause, too.
inline tensorflow::Status StatusInStep(tensorflow::OpKernelContext* ctx,
                                       const tensorflow::Status& status) {
  tensorflow::CancellationManager* const manager = ctx->cancellation_manager();
  if (!tensorflow::errors::IsCancelled(status) || manager == nullptr) return status;
  return IsCancelled(manager) ? tensorflow::StatusGroup::MakeDerived(status) : status;
}

// The status of an op that did not begin, or does not go on, since its step is cancelled.
inline tensorflow::Status StepIsCancelled(const tensorflow::OpKernelContext& ctx) {
  return tensorflow::StatusGroup::MakeDerived(
      tensorflow::errors::Cancelled(ctx.op_kernel().name(), ": the step is cancelled"));
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_CANCELLED_STEP_H_
