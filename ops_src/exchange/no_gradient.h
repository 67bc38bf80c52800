#ifndef GRAPH_OPT_EXCHANGE_NO_GRADIENT_H_
#define GRAPH_OPT_EXCHANGE_NO_GRADIENT_H_

#include <cstdint>
#include <cstring>

#include "rows/row_types.h"

namespace graph_opt {

// Gradients travel in the layout of the rows. A row that only lookups without a gradient have read
// is there, too, but must not be among the rows with a gradient: an optimizer with momentum would
// move it. Its first element is a NaN whose bits no arithmetic gives.
constexpr uint32_t kNoGradientFloat = 0x7fd1a55e;
constexpr uint16_t kNoGradientHalf = 0x7f5a;
constexpr uint16_t kNoGradientBfloat16 = 0x7fda;

inline uint16_t NoGradientBits(RowType type) {
  return type == RowType::kHalf ? kNoGradientHalf : kNoGradientBfloat16;
}

inline void MarkNoGradient(RowType type, char* row) {
  if (type == RowType::kFloat) {
    std::memcpy(row, &kNoGradientFloat, sizeof(kNoGradientFloat));
  } else {
    const uint16_t bits = NoGradientBits(type);
    std::memcpy(row, &bits, sizeof(bits));
  }
}

// Sizes are constants, since a call for each row would take longer than reading it.
inline bool HasNoGradient(RowType type, const char* row) {
  if (type == RowType::kFloat) {
    uint32_t first;
    std::memcpy(&first, row, sizeof(first));
    return first == kNoGradientFloat;
  }
  uint16_t first;
  std::memcpy(&first, row, sizeof(first));
  return first == NoGradientBits(type);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_NO_GRADIENT_H_
