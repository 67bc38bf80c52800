#include <cuda_runtime.h>

#include "device_memory.h"

namespace {

// Made with the first start; the check uses one device from one thread.
cudaEvent_t events[2] = {nullptr, nullptr};

cudaError_t MakeEvents() {
  for (cudaEvent_t& event : events) {
    const cudaError_t made = event == nullptr ? cudaEventCreate(&event) : cudaSuccess;
    if (made != cudaSuccess) return made;
  }
  return cudaSuccess;
}

}  // namespace

const char* gpu_check_device_name(void) {
  static cudaDeviceProp properties;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return nullptr;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return nullptr;
  return properties.name;
}

void* gpu_check_allocate(int64_t bytes) {
  void* memory = nullptr;
  const size_t size = static_cast<size_t>(bytes < 1 ? 1 : bytes);
  return cudaMalloc(&memory, size) == cudaSuccess ? memory : nullptr;
}

void gpu_check_free(void* memory) { cudaFree(memory); }

int32_t gpu_check_copy_to_device(void* to, const void* from, int64_t bytes) {
  return cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice);
}

int32_t gpu_check_copy_from_device(void* to, const void* from, int64_t bytes) {
  return cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost);
}

int32_t gpu_check_copy_on_device(void* to, const void* from, int64_t bytes) {
  return cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, nullptr);
}

int32_t gpu_check_wait(void) { return cudaDeviceSynchronize(); }

int32_t gpu_check_start(void) {
  const cudaError_t made = MakeEvents();
  return made != cudaSuccess ? made : cudaEventRecord(events[0], nullptr);
}

int32_t gpu_check_stop(float* milliseconds) {
  cudaError_t done = cudaEventRecord(events[1], nullptr);
  if (done == cudaSuccess) done = cudaEventSynchronize(events[1]);
  return done != cudaSuccess ? done : cudaEventElapsedTime(milliseconds, events[0], events[1]);
}
