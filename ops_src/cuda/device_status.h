#ifndef GRAPH_OPT_CUDA_DEVICE_STATUS_H_
#define GRAPH_OPT_CUDA_DEVICE_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cuda/group_embedding_cuda.h"

namespace graph_opt {

// What a call of group_embedding_cuda.h returned, as a status.
inline absl::Status DeviceStatus(int32_t returned) {
  if (returned == 0) return absl::OkStatus();
  const char* const message = graph_opt_cuda_message(returned);
  if (returned == GRAPH_OPT_CUDA_TOO_MANY) return absl::InvalidArgumentError(message);
  return absl::InternalError(message);
}

#define GRAPH_OPT_RETURN_IF_ERROR(call) \
  do {                                  \
    const absl::Status error = (call);  \
    if (!error.ok()) return error;      \
  } while (false)

}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_DEVICE_STATUS_H_
