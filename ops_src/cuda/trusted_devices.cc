#include <cstdio>

#include "cuda/self_check.h"

namespace graph_opt {

TrustedDevices::TrustedDevices(const char* mode) {
  const std::string given = mode == nullptr ? "" : mode;
  if (given == "trust") mode_ = kTrust;
  if (given == "off") mode_ = kOff;
  if (given.empty() || given == "check" || mode_ != kCheck) return;
  std::fprintf(stderr,
               "graph_opt: GRAPH_OPT_GPU_KERNELS is '%s'; need check, trust or off. Taken for "
               "check.\n",
               given.c_str());
}

bool TrustedDevices::Trusts(const std::string& device, const std::function<absl::Status()>& check) {
  if (mode_ != kCheck) return mode_ == kTrust;
  std::lock_guard<std::mutex> lock(mutex_);  // others wait for what is found
  const auto known = found_.find(device);
  if (known != found_.end()) return known->second;
  const absl::Status passed = check();
  found_[device] = passed.ok();
  if (!passed.ok()) {
    std::fprintf(stderr,
                 "graph_opt: the kernels for GPUs are not used on %s: %s. Group lookups, gradients "
                 "and updates of this device are done on the CPU: right, and slow. Put the tables "
                 "on a CPU, or build graph_opt with a CUDA toolkit for this GPU and driver.\n",
                 device.c_str(), std::string(passed.message()).c_str());
  }
  return passed.ok();
}

}  // namespace graph_opt
