// The kernels of ops_src/cuda on the host: a block's threads run one after another, phase by phase,
// in an order that can be chosen. If the threads of a phase depend on each other, results differ.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/group_calls.h"
#include "device_memory.h"

namespace graph_opt {
namespace gpu {
namespace {

enum Order { kForward, kBackward, kShuffled };

Order order = kForward;

// A planted fault: what goes wrong, in which kernel. Kernels are numbered in the order of KernelOf.
enum Planted { kNoFault, kNeverRuns, kMiddleBlockIsLost, kOddThreadsAreLost, kFails };
Planted planted_fault = kNoFault;
int faulty_kernel = -1;
constexpr int kSortCall = 8;
constexpr int kAddUpCall = 9;
constexpr int32_t kNoKernelImage = 209;

int KernelOf(const PoolBags&) { return 0; }
int KernelOf(const CountBags&) { return 1; }
int KernelOf(const WriteKeys&) { return 2; }
int KernelOf(const MarkRuns&) { return 3; }
int KernelOf(const StartRuns&) { return 4; }
int KernelOf(const FindShards&) { return 5; }
int KernelOf(const ReduceRuns<WriteSums>&) { return 6; }
template <typename Spec>
int KernelOf(const ReduceRuns<UpdateBySpec<Spec>>&) {
  return 7;
}

Planted PlantedIn(int kernel) { return kernel == faulty_kernel ? planted_fault : kNoFault; }

std::vector<int> ThreadsInOrder() {
  static std::mt19937 random(1);
  std::vector<int> threads(kThreads);
  std::iota(threads.begin(), threads.end(), 0);
  if (order == kBackward) std::reverse(threads.begin(), threads.end());
  if (order == kShuffled) std::shuffle(threads.begin(), threads.end(), random);
  return threads;
}

struct HostBlock {
  template <typename Phase>
  void Each(const Phase& phase) const {
    for (int thread : ThreadsInOrder()) {
      if (!loses_odd_threads || thread % 2 == 0) phase(thread);
    }
  }

  bool loses_odd_threads;
};

class HostDevice {
 public:
  explicit HostDevice(void*) {}

  static const char* Message(int32_t status) {
    return status == kNoKernelImage ? "no kernel image is available for execution on the device"
                                    : "an error of the GPU";
  }

  int32_t Upload(const std::vector<char>& from, char* to) const {
    memcpy(to, from.data(), from.size());
    return 0;
  }

  int32_t Download(const void* from, int64_t bytes, void* to) const {
    memcpy(to, from, static_cast<size_t>(bytes));
    return 0;
  }

  int32_t CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                   int64_t bytes, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      memcpy(static_cast<char*>(to) + i * to_stride,
             static_cast<const char*>(from) + i * from_stride, static_cast<size_t>(bytes));
    }
    return 0;
  }

  int32_t ClearFault(uint64_t* word) const {
    *word = GRAPH_OPT_CUDA_NO_FAULT;
    return 0;
  }

  int32_t ReadFault(const uint64_t* word, uint64_t* copied) const {
    *copied = *word;
    return 0;
  }

  template <typename Kernel>
  int32_t Launch(const Kernel& kernel, int64_t blocks) const {
    typedef typename Kernel::Shared Shared;
    const Planted planted = PlantedIn(KernelOf(kernel));
    if (planted == kFails) return kNoKernelImage;
    if (planted == kNeverRuns) return 0;
    const HostBlock block = {planted == kOddThreadsAreLost};
    for (int64_t i = 0; i < blocks; ++i) {
      if (planted == kMiddleBlockIsLost && i == blocks / 2) continue;
      // Of exactly this size, and full of what was never written.
      void* const memory = malloc(sizeof(Shared));
      memset(memory, 0xff, sizeof(Shared));
      kernel(block, static_cast<Shared*>(memory), order == kBackward ? blocks - 1 - i : i);
      free(memory);
    }
    return 0;
  }

  int64_t TemporaryBytes(int64_t, int) const { return 1; }

  int32_t Sort(const SortMemory& memory, int key_bits, void*, int64_t) const {
    if (PlantedIn(kSortCall) == kFails) return kNoKernelImage;
    std::vector<int64_t> places(static_cast<size_t>(memory.num_slots));
    std::iota(places.begin(), places.end(), int64_t{0});
    const uint64_t mask = (uint64_t{1} << key_bits) - 1;
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
      return (memory.keys[a] & mask) < (memory.keys[b] & mask);
    });
    if (PlantedIn(kSortCall) != kNoFault) std::reverse(places.begin(), places.end());
    for (size_t i = 0; i < places.size(); ++i) {
      memory.sorted_keys[i] = memory.keys[places[i]];
      memory.sorted_packed[i] = memory.packed[places[i]];
    }
    return 0;
  }

  int32_t AddUp(const SortMemory& memory, void*, int64_t) const {
    if (PlantedIn(kAddUpCall) == kFails) return kNoKernelImage;
    uint32_t* const end =
        std::partial_sum(memory.marks, memory.marks + memory.num_slots, memory.runs);
    if (PlantedIn(kAddUpCall) == kNoFault) return 0;
    const uint32_t most = std::max<uint32_t>(end[-1], 2) - 1;  // as if the last ones were lost
    for (uint32_t* run = memory.runs; run < end; ++run) *run = std::min(*run, most);
    return 0;
  }
};

std::chrono::steady_clock::time_point started;

}  // namespace
}  // namespace gpu
}  // namespace graph_opt

#define GRAPH_OPT_DEVICE graph_opt::gpu::HostDevice
#include "cuda/exported_calls.h"

extern "C" void gpu_check_emulated_order(int32_t chosen) {
  graph_opt::gpu::order = static_cast<graph_opt::gpu::Order>(chosen);
}

extern "C" void gpu_check_emulated_fault(int32_t kernel, int32_t planted) {
  graph_opt::gpu::faulty_kernel = kernel;
  graph_opt::gpu::planted_fault = static_cast<graph_opt::gpu::Planted>(planted);
}

const char* gpu_check_device_name(void) { return "emulated"; }

void* gpu_check_allocate(int64_t bytes) {
  void* memory = nullptr;
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (posix_memalign(&memory, 256, size) != 0) return nullptr;
  memset(memory, 0xff, size);
  return memory;
}

void gpu_check_free(void* memory) { free(memory); }

int32_t gpu_check_copy_to_device(void* to, const void* from, int64_t bytes) {
  memcpy(to, from, static_cast<size_t>(bytes));
  return 0;
}

int32_t gpu_check_copy_from_device(void* to, const void* from, int64_t bytes) {
  memcpy(to, from, static_cast<size_t>(bytes));
  return 0;
}

int32_t gpu_check_copy_on_device(void* to, const void* from, int64_t bytes) {
  memcpy(to, from, static_cast<size_t>(bytes));
  return 0;
}

int32_t gpu_check_wait(void) { return 0; }

int32_t gpu_check_start(void) {
  graph_opt::gpu::started = std::chrono::steady_clock::now();
  return 0;
}

int32_t gpu_check_stop(float* milliseconds) {
  const auto passed = std::chrono::steady_clock::now() - graph_opt::gpu::started;
  *milliseconds = std::chrono::duration<float, std::milli>(passed).count();
  return 0;
}
