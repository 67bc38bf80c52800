#ifndef GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_
#define GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/version.h"

// What TensorFlow 1.15 and 2.x spell differently, in one place.

#if TF_MAJOR_VERSION > 2 || (TF_MAJOR_VERSION == 2 && TF_MINOR_VERSION >= 13)
#define GRAPH_OPT_STATUS_IS_ABSL 1
#else
#define GRAPH_OPT_STATUS_IS_ABSL 0
#endif

namespace graph_opt {

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

// The status of a functor that `op` called, which is named in the message.
inline tensorflow::Status StatusOfOp(const std::string& op, const absl::Status& status) {
  if (status.ok()) return tensorflow::Status();
  return ToTensorFlow(absl::Status(status.code(), absl::StrCat(op, ": ", status.message())));
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_
