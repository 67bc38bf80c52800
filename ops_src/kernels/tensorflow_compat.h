#ifndef GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_
#define GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_

#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/version.h"

// What TensorFlow 1.15 and 2.x spell differently, once.

#if TF_MAJOR_VERSION > 2 || (TF_MAJOR_VERSION == 2 && TF_MINOR_VERSION >= 13)
#define GRAPH_OPT_STATUS_IS_ABSL 1
#else
#define GRAPH_OPT_STATUS_IS_ABSL 0
#endif

namespace graph_opt {

// A status of the canonical error `code` (tensorflow/core/protobuf/error_codes.proto).
inline tensorflow::Status ErrorStatus(int code, const std::string& message) {
#if GRAPH_OPT_STATUS_IS_ABSL
  return tensorflow::Status(static_cast<absl::StatusCode>(code), message);
#else
  return tensorflow::Status(static_cast<tensorflow::error::Code>(code), message);
#endif
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_TENSORFLOW_COMPAT_H_
