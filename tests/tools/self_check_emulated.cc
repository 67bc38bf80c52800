// The self-check of a GPU's kernels, and the CPU in their place, as plain C functions for a test.
// Linked with emulated kernels; "device memory" is the host's.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "cuda/host_group.h"
#include "cuda/self_check.h"

namespace {

int32_t Copy(absl::string_view text, char* to, int64_t size) {
  const size_t length = std::min(text.size(), static_cast<size_t>(size - 1));
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
  return static_cast<int32_t>(length);
}

absl::Status CheckOnce() {
  int64_t bytes = 0;
  const absl::Status status = graph_opt::SelfCheckBytes(&bytes);
  if (!status.ok()) return status;
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes) != 0) return absl::ResourceExhaustedError("no memory");
  std::memset(memory, 0xff, bytes);
  const absl::Status checked = graph_opt::SelfCheck(memory, nullptr);
  std::free(memory);
  return checked;
}

graph_opt::Sequential sequential;
std::unique_ptr<graph_opt::HostGroup> sorted;

// 0 where all went well, as ctypes reads it.
int32_t Returned(const absl::Status& status, const graph_opt::BagFault& fault = {}) {
  return status.ok() && fault.kind == graph_opt::BagFault::kNone ? 0 : GRAPH_OPT_CUDA_BAD_GROUP;
}

}  // namespace

extern "C" {

// Writes what is wrong and returns how long that is.
int32_t test_self_check(char* wrong, int64_t size) {
  return Copy(CheckOnce().message(), wrong, size);
}

// Asks `times` times whether two devices are trusted; counts the checks. Returns the last answer.
int32_t test_trusted_devices(const char* mode, const char* wrong, int32_t times, int32_t* checks) {
  graph_opt::TrustedDevices devices(mode);
  bool trusted = false;
  for (int32_t i = 0; i < times; ++i) {
    for (const char* device : {"/device:GPU:0", "/device:GPU:1"}) {
      trusted = devices.Trusts(device, [&] {
        ++*checks;
        return *wrong == 0 ? absl::OkStatus() : absl::InternalError(wrong);
      });
    }
  }
  return trusted;
}

int32_t test_host_lookup(const GraphOptCudaGroup* group) {
  graph_opt::BagFault fault;
  const absl::Status status = graph_opt::HostGroup(*group, nullptr, &sequential).Lookup(&fault);
  return Returned(status, fault);
}

int32_t test_host_sort(const GraphOptCudaGroup* group, int64_t* counts) {
  graph_opt::BagFault fault;
  sorted.reset(new graph_opt::HostGroup(*group, nullptr, &sequential));
  const int32_t returned = Returned(sorted->Sort(&fault), fault);
  if (returned != 0) return returned;
  for (int32_t s = 0; s < group->num_shards; ++s) counts[s] = sorted->NumRows(s);
  return 0;
}

// Of the group that was sorted last.
int32_t test_host_sum(void) { return Returned(sorted->Sum()); }
int32_t test_host_apply(const GraphOptOptimizer* optimizer) {
  return Returned(sorted->Apply(*optimizer));
}

}  // extern "C"
