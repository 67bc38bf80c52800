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

inline void MarkNoGradient(RowType type, char* row) {
  if (type == RowType::kFloat) {
    std::memcpy(row, &kNoGradientFloat, sizeof(kNoGradientFloat));
  } else {
    const uint16_t bits = type == RowType::kHalf ? kNoGradientHalf : kNoGradientBfloat16;
    std::memcpy(row, &bits, sizeof(bits));
  }
}

inline bool HasNoGradient(RowType type, const char* row) {
  char mark[sizeof(uint32_t)];
  MarkNoGradient(type, mark);
  return std::memcmp(row, mark, ByteSize(type)) == 0;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_NO_GRADIENT_H_
