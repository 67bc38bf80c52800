#ifndef GRAPH_OPT_CUDA_SELF_CHECK_H_
#define GRAPH_OPT_CUDA_SELF_CHECK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"

namespace graph_opt {

// Runs all kernels of group_embedding_cuda.h on small groups of every kind, and the CPU's functors
// on the same: some 40 launches. `memory` is SelfCheckBytes() of device memory, aligned to 256.
// Fails with what differs, or what failed, and names the kernel.
absl::Status SelfCheck(void* memory, void* stream);

absl::Status SelfCheckBytes(int64_t* bytes);

// The devices whose kernels are used: those that passed their check, which runs when a device is
// first asked for. Thread-safe.
class TrustedDevices {
 public:
  // `mode`, or null, is a value of the environment variable GRAPH_OPT_GPU_KERNELS:
  //
  //   check   (default) a device is checked
  //   trust   the kernels are used unchecked
  //   off     they are not used
  explicit TrustedDevices(const char* mode);

  // A failure of `check` is reported once, on standard error.
  bool Trusts(const std::string& device, const std::function<absl::Status()>& check);

 private:
  enum Mode { kCheck, kTrust, kOff };

  Mode mode_ = kCheck;
  std::mutex mutex_;
  std::map<std::string, bool> found_;  // guarded by mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_SELF_CHECK_H_
