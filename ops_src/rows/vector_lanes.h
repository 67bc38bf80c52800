// Vectors of float, as wide as the instruction set this file is compiled for.
//
// No include guard beyond one translation unit: row_kernels_<set>.cc each compile it with flags of
// their own, into the namespace GRAPH_OPT_SET, so that no function compiled for one set can be
// linked where another was meant. For the same reason nothing of the standard library's templates
// may be used here.
#ifndef GRAPH_OPT_ROWS_VECTOR_LANES_H_
#define GRAPH_OPT_ROWS_VECTOR_LANES_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "rows/row_types.h"

// For what innermost loops call: by itself the compiler stops inlining where a file becomes long.
#define GRAPH_OPT_INLINED __attribute__((always_inline))

#ifndef GRAPH_OPT_SET
#error "GRAPH_OPT_SET must name the namespace of this instruction set"
#endif

namespace graph_opt {
namespace GRAPH_OPT_SET {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

inline Floats Broadcast(float value) { return Floats{} + value; }

inline Floats Load(const float* from) {
  Floats lanes;
  memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

inline void Store(Floats lanes, float* to) { memcpy(to, &lanes, sizeof(lanes)); }

// Does not bring what it overwrites into the caches. `to` is aligned. FinishStores() before another
// thread may read.
inline void StorePastCaches(Floats lanes, float* to) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, lanes);
#elif defined(__AVX2__)
  _mm256_stream_ps(to, lanes);
#elif defined(__SSE2__)
  _mm_stream_ps(to, lanes);
#else
  Store(lanes, to);
#endif
}

inline void FinishStores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// The first `count` lanes, 1 to kLanes - 1; the others are 0.
inline Floats LoadSome(const float* from, int count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#elif defined(__AVX2__)
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
#else
  Floats lanes{};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return lanes;
#endif
}

inline void StoreSome(Floats lanes, float* to, int count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), lanes);
#elif defined(__AVX2__)
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  _mm256_maskstore_ps(to, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane), lanes);
#else
  for (int i = 0; i < count; ++i) to[i] = lanes[i];
#endif
}

// The same of a whole vector, where `some` is 0.
inline GRAPH_OPT_INLINED Floats LoadPart(const float* from, int some) {
  return some == 0 ? Load(from) : LoadSome(from, some);
}

inline GRAPH_OPT_INLINED void StorePart(Floats lanes, float* to, int some) {
  if (some == 0) return Store(lanes, to);
  StoreSome(lanes, to, some);
}

inline Floats SquareRoot(Floats x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, x);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = sqrtf(x[i]);
  return x;
#endif
}

// Lanes of `yes` where `mask` is all ones, else of `no`.
inline Floats Choose(Words mask, Floats yes, Floats no) {
  return (Floats)((mask & (Words)yes) | (~mask & (Words)no));
}

// What the CPU estimates 1 / sqrt(x) as: the same for each x, whatever the width of its vector.
inline Floats EstimatedReciprocalRoot(Floats x) {
#if defined(__AVX512F__)
  const __m256 low = _mm256_rsqrt_ps(_mm512_maskz_extractf32x8_ps(0xff, x, 0));
  const __m256 high = _mm256_rsqrt_ps(_mm512_maskz_extractf32x8_ps(0xff, x, 1));
  return _mm512_maskz_insertf32x8(0xffff, _mm512_maskz_broadcast_f32x8(0xffff, low), high, 1);
#elif defined(__AVX2__)
  return _mm256_rsqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_rsqrt_ps(x);
#else
  return 1.0f / SquareRoot(x);
#endif
}

// 1 / sqrt(x) by that estimate and one step of Newton's method, in Eigen's order of operations
// (generic_rsqrt_newton_step): TensorFlow's kernels have these bits where they take several columns
// at once.
inline Floats RefinedReciprocalRoot(Floats x) {
  const Floats estimate = EstimatedReciprocalRoot(x);
  const Floats error = x * estimate * estimate + -1.0f;
  const Floats refined = estimate * -0.5f * error + estimate;
  return Choose((Words)(refined != refined), estimate, refined);  // of 0 and of infinity
}

inline Floats Least(Floats a, Floats b) { return Choose((Words)(b < a), b, a); }
inline Floats Greatest(Floats a, Floats b) { return Choose((Words)(a < b), b, a); }

inline Halves LoadHalves(const void* from) {
  Halves bits;
  memcpy(&bits, from, sizeof(bits));
  return bits;
}

inline void StoreHalves(Halves bits, void* to) { memcpy(to, &bits, sizeof(bits)); }

// The first `count`, 1 to kLanes - 1; the others are 0. Nothing goes through memory, where what is
// written in parts can not be read as a whole until it has left the core.
#if defined(__AVX512F__)
inline Halves LoadSomeHalves(const void* from, int count) {
  return (Halves)_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), from);
}
inline void StoreSomeHalves(Halves bits, void* to, int count) {
  _mm256_mask_storeu_epi16(to, static_cast<__mmask16>((1u << count) - 1), (__m256i)bits);
}
#elif defined(__AVX2__)
// Pairs are read and written by a mask, and the last one of an odd count by itself.
inline __m128i PairsOf(int count) {
  return _mm_cmpgt_epi32(_mm_set1_epi32(count / 2), _mm_setr_epi32(0, 1, 2, 3));
}
inline Halves LoadSomeHalves(const void* from, int count) {
  const __m128i pairs = _mm_maskload_epi32(static_cast<const int*>(from), PairsOf(count));
  int16_t last;
  memcpy(&last, static_cast<const char*>(from) + 2 * (count - 1), sizeof(last));
  const __m128i is_last = _mm_cmpeq_epi16(_mm_set1_epi16(static_cast<int16_t>(count - 1)),
                                          _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
  return (Halves)_mm_blendv_epi8(pairs, _mm_set1_epi16(last), is_last);
}
inline void StoreSomeHalves(Halves bits, void* to, int count) {
  _mm_maskstore_epi32(static_cast<int*>(to), PairsOf(count), (__m128i)bits);
  if (count % 2 == 0) return;
  const int last = count - 1;
  const __m128i place = _mm_set1_epi16(static_cast<int16_t>(2 * last | (2 * last + 1) << 8));
  const uint16_t half =
      static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_shuffle_epi8((__m128i)bits, place)));
  memcpy(static_cast<char*>(to) + 2 * last, &half, sizeof(half));
}
#else
inline Halves LoadSomeHalves(const void* from, int count) {
  const uint16_t* const halves = static_cast<const uint16_t*>(from);
  uint64_t bits = 0;
  for (int i = 0; i < count; ++i) bits |= uint64_t{halves[i]} << (16 * i);
  return LoadHalves(&bits);
}
inline void StoreSomeHalves(Halves bits, void* to, int count) {
  uint16_t* const halves = static_cast<uint16_t*>(to);
  for (int i = 0; i < count; ++i) halves[i] = bits[i];
}
#endif

// bfloat16 is the upper half of a float; rounding is to nearest, ties to even.
inline Floats FloatsOf(Halves bits, Bfloat16) {
  return (Floats)(__builtin_convertvector(bits, Words) << 16);
}

inline Halves Rounded(Floats lanes, Bfloat16) {
  const Words bits = (Words)lanes;
  const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Words quiet = ((bits >> 16) & 0x8000) | 0x7fc0;
  const Words is_nan = (Words)(lanes != lanes);
  return __builtin_convertvector((is_nan & quiet) | (~is_nan & rounded), Halves);
}

#if defined(__AVX512F__)
inline Floats FloatsOf(Halves bits, Half) {
  // The masked forms do the same, and spare GCC 12's warning of an uninitialized operand.
  return _mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
}
inline Halves Rounded(Floats lanes, Half) {
  return (Halves)_mm512_maskz_cvtps_ph(0xffff, lanes,
                                       _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__AVX2__)
inline Floats FloatsOf(Halves bits, Half) { return _mm256_cvtph_ps((__m128i)bits); }
inline Halves Rounded(Floats lanes, Half) {
  return (Halves)_mm256_cvtps_ph(lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
inline Floats FloatsOf(Halves bits, Half) {
  Floats lanes;
  for (int i = 0; i < kLanes; ++i) lanes[i] = HalfToFloat(Half{bits[i]});
  return lanes;
}
inline Halves Rounded(Floats lanes, Half) {
  Halves bits;
  for (int i = 0; i < kLanes; ++i) bits[i] = FloatToHalf(lanes[i]).bits;
  return bits;
}
#endif

// Short is Half or Bfloat16.
template <typename Short>
inline Floats Load(const Short* from) {
  return FloatsOf(LoadHalves(from), Short{});
}
template <typename Short>
inline void Store(Floats lanes, Short* to) {
  StoreHalves(Rounded(lanes, Short{}), to);
}
template <typename Short>
inline Floats LoadSome(const Short* from, int count) {
  return FloatsOf(LoadSomeHalves(from, count), Short{});
}
template <typename Short>
inline void StoreSome(Floats lanes, Short* to, int count) {
  StoreSomeHalves(Rounded(lanes, Short{}), to, count);
}

// Bytes as whole numbers.
#if defined(__AVX512F__)
inline Floats Load(const int8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes));
}
inline Floats LoadSome(const int8_t* from, int count) {
  const __m128i bytes = _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << count) - 1), from);
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes));
}
#else
inline Floats FromBytes(uint64_t bytes) {
#if defined(__AVX2__)
  const __m128i low = _mm_cvtsi64_si128(static_cast<long long>(bytes));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low));
#else
  Floats lanes{};
  for (int i = 0; i < kLanes; ++i) lanes[i] = static_cast<int8_t>(bytes >> (8 * i));
  return lanes;
#endif
}
inline Floats Load(const int8_t* from) {
  uint64_t bytes = 0;
  memcpy(&bytes, from, kLanes);
  return FromBytes(bytes);
}
inline Floats LoadSome(const int8_t* from, int count) {
  uint64_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes |= uint64_t{static_cast<uint8_t>(from[i])} << (8 * i);
  return FromBytes(bytes);
}
#endif

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_VECTOR_LANES_H_
