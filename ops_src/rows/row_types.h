#ifndef GRAPH_OPT_ROWS_ROW_TYPES_H_
#define GRAPH_OPT_ROWS_ROW_TYPES_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace graph_opt {

// What a table's rows are made of. Sums are kept in float whatever the type.
//
//   kScaledBytes   a row is [float scale, dim bytes] without padding, so that one read fetches it;
//                  element i is bytes[i] * scale, rounded to float. Such rows are only read.
//
// The layout is that of FBGEMM's fused row-wise quantization, without its bias.
enum class RowType { kFloat, kHalf, kBfloat16, kScaledBytes };

constexpr int64_t kScaleBytes = 4;

struct Half {
  uint16_t bits;
};

struct Bfloat16 {
  uint16_t bits;
};

// Of an element. Static, as those below.
static inline int64_t ByteSize(RowType type) {
  if (type == RowType::kScaledBytes) return 1;
  return type == RowType::kFloat ? 4 : 2;
}

static inline int64_t RowBytesOf(RowType type, int64_t dim) {
  return dim * ByteSize(type) + (type == RowType::kScaledBytes ? kScaleBytes : 0);
}

// How the rows of a bag become one: their sum, divided by nothing, by the sum of the weights, or by
// the root of the sum of their squares. Where that is 0, kMean and kSqrtN give 0, as TensorFlow 2
// does, and the last two what a division gives, as TensorFlow 1 does: nan or an infinite number,
// also for a bag without ids. They are for weighted bags of which nothing is dropped.
enum class Combiner { kSum, kMean, kSqrtN, kMeanOrNan, kSqrtNOrNan };
constexpr int kCombiners = 5;

static inline bool IsMean(Combiner combiner) {
  return combiner == Combiner::kMean || combiner == Combiner::kMeanOrNan;
}

static inline bool GivesNan(Combiner combiner) {
  return combiner == Combiner::kMeanOrNan || combiner == Combiner::kSqrtNOrNan;
}

// What a weight adds to the total of its bag.
static inline float PartOfTotal(Combiner combiner, float weight) {
  return combiner == Combiner::kSum || IsMean(combiner) ? weight : weight * weight;
}

// Stands for a divisor of 0 where x / 0 is 0 whatever x is. No divisor is -0 otherwise.
constexpr float kDividesToZero = -0.0f;

static inline bool DividesToZero(float divisor) {
  return divisor == 0 && __builtin_signbit(divisor) != 0;
}

// What the sum of a weighted bag, and its gradient, are divided by.
static inline float DivisorOfTotal(Combiner combiner, float total) {
  if (combiner == Combiner::kSum) return 1.0f;
  const float divisor = IsMean(combiner) ? total : sqrtf(total);
  if (divisor != 0) return divisor;
  return GivesNan(combiner) ? 0.0f : kDividesToZero;
}

// IEEE half precision in software, for machines without the instruction; static, so that no other
// translation unit's copy, perhaps compiled for a newer machine, is taken instead.
static inline float HalfToFloat(Half half) {
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000) << 16;
  const uint32_t exponent = (half.bits >> 10) & 0x1f;
  const uint32_t mantissa = half.bits & 0x3ff;
  uint32_t bits;
  if (exponent == 0) {  // zero and subnormal: mantissa times 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    memcpy(&bits, &magnitude, sizeof(bits));
    bits |= sign;
  } else if (exponent == 31) {
    bits = sign | 0x7f800000 | (mantissa << 13);
  } else {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  }
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds to nearest, ties to even, as the instruction does.
static inline Half FloatToHalf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  bits &= 0x7fffffff;
  uint16_t half;
  if (bits > 0x7f800000) {
    half = static_cast<uint16_t>(0x7e00 | ((bits >> 13) & 0x3ff));  // stays a nan
  } else if (bits >= 0x477ff000) {                                  // 65520 and more round to inf
    half = 0x7c00;
  } else if (bits < 0x38800000) {  // subnormal: let float addition at 0.5 round
    float magnitude;
    memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude += 0.5f;
    uint32_t shifted;
    memcpy(&shifted, &magnitude, sizeof(shifted));
    half = static_cast<uint16_t>(shifted - 0x3f000000);
  } else {
    half = static_cast<uint16_t>((bits + 0xc8000fff + ((bits >> 13) & 1)) >> 13);
  }
  return Half{static_cast<uint16_t>(half | sign)};
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_ROW_TYPES_H_
