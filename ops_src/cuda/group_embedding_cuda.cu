#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "cuda/group_calls.h"
#include "cuda/group_embedding_cuda.h"

namespace graph_opt {
namespace gpu {
namespace {

// The threads of a block on the GPU.
struct CudaBlock {
  template <typename Phase>
  __device__ void Each(const Phase& phase) const {
    phase(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
};

template <typename Kernel>
__global__ void __launch_bounds__(kThreads, 3) Run(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  kernel(CudaBlock(), &shared, static_cast<int64_t>(blockIdx.x));
}

class CudaDevice {
 public:
  explicit CudaDevice(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  static const char* Message(int32_t status) {
    return cudaGetErrorString(static_cast<cudaError_t>(status));
  }

  // From memory that is not pinned: it is read before the call returns.
  int32_t Upload(const std::vector<char>& from, char* to) const {
    return cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_);
  }

  int32_t Download(const void* from, int64_t bytes, void* to) const {
    const cudaError_t queued =
        cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_);
    return queued != cudaSuccess ? queued : cudaStreamSynchronize(stream_);
  }

  int32_t CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
                   int64_t bytes, int64_t count) const {
    const cudaError_t queued = cudaMemcpy2DAsync(
        to, static_cast<size_t>(to_stride), from, static_cast<size_t>(from_stride),
        static_cast<size_t>(bytes), static_cast<size_t>(count), cudaMemcpyDefault, stream_);
    return queued != cudaSuccess ? queued : cudaStreamSynchronize(stream_);
  }

  int32_t ClearFault(uint64_t* fault) const {
    return cudaMemsetAsync(fault, 0xff, sizeof(*fault), stream_);
  }

  int32_t ReadFault(const uint64_t* fault, uint64_t* copied) const {
    return cudaMemcpyAsync(copied, fault, sizeof(*fault), cudaMemcpyDeviceToHost, stream_);
  }

  template <typename Kernel>
  int32_t Launch(const Kernel& kernel, int64_t blocks) const {
    if (blocks == 0) return 0;
    Run<<<static_cast<unsigned>(blocks), kThreads, 0, stream_>>>(kernel);
    return cudaGetLastError();
  }

  int64_t TemporaryBytes(int64_t count, int key_bits) const {
    SortMemory none = {};
    none.num_slots = count;
    size_t sort_bytes = 0;
    size_t scan_bytes = 0;
    if (SortInto(none, key_bits, nullptr, &sort_bytes) != cudaSuccess ||
        AddUpInto(none, nullptr, &scan_bytes) != cudaSuccess) {
      return GRAPH_OPT_CUDA_NO_DEVICE;
    }
    return static_cast<int64_t>(Greatest(sort_bytes, scan_bytes));
  }

  int32_t Sort(const SortMemory& memory, int key_bits, void* temporary, int64_t bytes) const {
    size_t size = static_cast<size_t>(bytes);
    return SortInto(memory, key_bits, temporary, &size);
  }

  int32_t AddUp(const SortMemory& memory, void* temporary, int64_t bytes) const {
    size_t size = static_cast<size_t>(bytes);
    return AddUpInto(memory, temporary, &size);
  }

 private:
  cudaError_t SortInto(const SortMemory& memory, int key_bits, void* temporary,
                       size_t* bytes) const {
    return cub::DeviceRadixSort::SortPairs(
        temporary, *bytes, memory.keys, memory.sorted_keys, memory.packed, memory.sorted_packed,
        static_cast<int>(memory.num_slots), 0, key_bits, stream_);
  }

  cudaError_t AddUpInto(const SortMemory& memory, void* temporary, size_t* bytes) const {
    return cub::DeviceScan::InclusiveSum(temporary, *bytes, memory.marks, memory.runs,
                                         static_cast<int>(memory.num_slots), stream_);
  }

  cudaStream_t stream_;
};

}  // namespace
}  // namespace gpu
}  // namespace graph_opt

#define GRAPH_OPT_DEVICE graph_opt::gpu::CudaDevice
#include "cuda/exported_calls.h"
