// What the kernels are written in. Kernels are plain C++ that nvcc compiles for the GPU, and a test
// for the host, where a block's threads run one after another.
//
// A kernel is a struct with its arguments, a `Shared` for one block, and
//
//   template <typename Block> operator()(const Block& block, Shared* shared, int64_t index)
//
// for block number `index`. What its threads do is divided into phases, block.Each([&](int thread)
// {...}): all threads finish a phase before any begins the next. Between phases there is only code
// that is the same in all threads; what a thread has found is kept in `shared`.
#ifndef GRAPH_OPT_CUDA_DEVICE_CODE_H_
#define GRAPH_OPT_CUDA_DEVICE_CODE_H_

#include <math.h>
#include <stdint.h>

#include "rows/row_types.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define GRAPH_OPT_GPU __device__ inline
#define GRAPH_OPT_GPU_AND_HOST __host__ __device__ inline
#define GRAPH_OPT_UNROLL _Pragma("unroll")
#else
#define GRAPH_OPT_GPU inline
#define GRAPH_OPT_GPU_AND_HOST inline
#define GRAPH_OPT_UNROLL
#endif

namespace graph_opt {
namespace gpu {

// Threads of a block, in all kernels.
constexpr int kThreads = 256;
// Memory accesses are of 16 bytes where rows allow it.
constexpr int kVectorBytes = 16;

template <typename T>
GRAPH_OPT_GPU_AND_HOST T Least(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
GRAPH_OPT_GPU_AND_HOST T Greatest(T a, T b) {
  return a < b ? b : a;
}

// Columns of a row that one thread reads and writes at once.
template <typename T, int kColumns>
struct alignas(kColumns * sizeof(T)) Pack {
  T columns[kColumns];
};

#ifdef __CUDA_ARCH__
GRAPH_OPT_GPU float ToFloat(Half half) { return __half2float(__ushort_as_half(half.bits)); }
GRAPH_OPT_GPU void FromFloat(float value, Half* half) {
  half->bits = __half_as_ushort(__float2half_rn(value));
}
GRAPH_OPT_GPU void FromFloat(float value, Bfloat16* to) {
  to->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
GRAPH_OPT_GPU float ToFloat(Bfloat16 from) {
  return __uint_as_float(static_cast<uint32_t>(from.bits) << 16);
}
GRAPH_OPT_GPU float BitsToFloat(uint32_t bits) { return __uint_as_float(bits); }
GRAPH_OPT_GPU uint32_t FloatToBits(float value) { return __float_as_uint(value); }
#else
GRAPH_OPT_GPU float BitsToFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
GRAPH_OPT_GPU uint32_t FloatToBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
GRAPH_OPT_GPU float ToFloat(Half half) { return HalfToFloat(half); }
GRAPH_OPT_GPU void FromFloat(float value, Half* half) { *half = FloatToHalf(value); }
GRAPH_OPT_GPU float ToFloat(Bfloat16 from) {
  return BitsToFloat(static_cast<uint32_t>(from.bits) << 16);
}
GRAPH_OPT_GPU void FromFloat(float value, Bfloat16* to) {
  const uint32_t bits = FloatToBits(value);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  to->bits = static_cast<uint16_t>(is_nan ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#endif

GRAPH_OPT_GPU float ToFloat(float value) { return value; }
GRAPH_OPT_GPU void FromFloat(float value, float* to) { *to = value; }

// Puts the least of all faults there; the order of the threads does not matter.
GRAPH_OPT_GPU void TellFault(uint64_t* fault, uint64_t value) {
  if (fault == nullptr) return;
#ifdef __CUDA_ARCH__
  atomicMin(reinterpret_cast<unsigned long long*>(fault), static_cast<unsigned long long>(value));
#else
  *fault = Least(*fault, value);
#endif
}

// The last i with first[i] <= at, where first[0] = 0 <= at and first[count] > at.
GRAPH_OPT_GPU_AND_HOST int32_t PartOf(const int64_t* first, int32_t count, int64_t at) {
  int32_t low = 0;
  int32_t high = count;  // first[high] > at
  while (high - low > 1) {
    const int32_t middle = low + (high - low) / 2;
    if (first[middle] <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_DEVICE_CODE_H_
