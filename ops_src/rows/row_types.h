#ifndef GRAPH_OPT_ROWS_ROW_TYPES_H_
#define GRAPH_OPT_ROWS_ROW_TYPES_H_

#include <stdint.h>
#include <string.h>

namespace graph_opt {

// What a table's rows are made of. Sums are kept in float whatever the type.
enum class RowType { kFloat, kHalf, kBfloat16 };

struct Half {
  uint16_t bits;
};

struct Bfloat16 {
  uint16_t bits;
};

inline int64_t ByteSize(RowType type) { return type == RowType::kFloat ? 4 : 2; }

// How the rows of a bag become one.
enum class Combiner { kSum, kMean, kSqrtN };

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
