// The elements of rows of each type, as floats; part of row_kernels_compiled.h.
#ifndef GRAPH_OPT_ROWS_READ_ROWS_H_
#define GRAPH_OPT_ROWS_READ_ROWS_H_

#include "rows/row_types.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

// Stands for the type of a row's elements, as float, Half and Bfloat16 do: RowType::kScaledBytes.
struct ScaledByte {
  int8_t number;
};

// Reads elements [at, at + kLanes), or if `some` is not 0, so many and zeros.
template <typename T>
inline GRAPH_OPT_INLINED Floats ReadRow(const T* row, int64_t at, int some) {
  return some == 0 ? Load(row + at) : LoadSome(row + at, some);
}

inline GRAPH_OPT_INLINED Floats ReadRow(const ScaledByte* row, int64_t at, int some) {
  float scale;
  memcpy(&scale, row, sizeof(scale));
  const int8_t* const bytes = reinterpret_cast<const int8_t*>(row) + kScaleBytes;
  return ReadRow(bytes, at, some) * Broadcast(scale);
}

template <typename T>
inline void RowToFloats(const void* row, int64_t dim, float* to) {
  const T* const from = static_cast<const T*>(row);
  int64_t at = 0;
  for (; at + kLanes <= dim; at += kLanes) Store(ReadRow(from, at, 0), to + at);
  if (at == dim) return;
  const int some = static_cast<int>(dim - at);
  StoreSome(ReadRow(from, at, some), to + at, some);
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_READ_ROWS_H_
