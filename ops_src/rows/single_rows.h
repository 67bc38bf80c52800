// Bags of one id, whose rows are copied; part of row_kernels_compiled.h.
#ifndef GRAPH_OPT_ROWS_SINGLE_ROWS_H_
#define GRAPH_OPT_ROWS_SINGLE_ROWS_H_

#include "rows/read_rows.h"
#include "rows/row_kernels.h"
#include "rows/run_sums.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

constexpr int64_t kVectorBytes = 4 * kLanes;

inline void CopyVector(const char* from, char* to) {
  Floats bits;
  memcpy(&bits, from, sizeof(bits));
  memcpy(to, &bits, sizeof(bits));
}

// Copies the first kBytes and the last, some of which may be the same, of kBytes to 2 * kBytes.
template <int kBytes>
inline void CopyEnds(const char* from, int64_t bytes, char* to) {
  memcpy(to, from, kBytes);
  memcpy(to + bytes - kBytes, from + bytes - kBytes, kBytes);
}

inline void CopyRow(const void* row, int64_t row_bytes, void* pooled) {
  const char* const from = static_cast<const char*>(row);
  char* const to = static_cast<char*>(pooled);
  if (row_bytes >= kVectorBytes) {
    const int64_t last = row_bytes - kVectorBytes;  // of which the loop may have copied some
    for (int64_t at = 0; at < last; at += kVectorBytes) CopyVector(from + at, to + at);
    return CopyVector(from + last, to + last);
  }
  if (row_bytes >= 32) return CopyEnds<32>(from, row_bytes, to);
  if (row_bytes >= 16) return CopyEnds<16>(from, row_bytes, to);
  if (row_bytes >= 8) return CopyEnds<8>(from, row_bytes, to);
  if (row_bytes >= 4) return CopyEnds<4>(from, row_bytes, to);
  if (row_bytes >= 2) memcpy(to, from, 2);  // elements have 2 or 4 bytes
}

// The same past the caches; `to` and the row are whole vectors.
inline void StreamRow(const void* row, int64_t row_bytes, void* to) {
  const char* const from = static_cast<const char*>(row);
  char* const at_to = static_cast<char*>(to);
  for (int64_t at = 0; at < row_bytes; at += kVectorBytes) {
    Floats bits;
    memcpy(&bits, from + at, sizeof(bits));
    StorePastCaches(bits, reinterpret_cast<float*>(at_to + at));  // aligned
  }
}

// How a row becomes a pooled row.
struct Copied {
  static inline void Take(const SingleRows& block, const void* row, void* pooled) {
    CopyRow(row, block.row_bytes, pooled);
  }
};
struct Streamed {
  static inline void Take(const SingleRows& block, const void* row, void* pooled) {
    StreamRow(row, block.row_bytes, pooled);
  }
};
template <typename T>
struct AsFloats {
  static inline void Take(const SingleRows& block, const void* row, void* pooled) {
    RowToFloats<T>(row, block.dim, static_cast<float*>(pooled));
  }
};

// One loop looks an id up, asks for its row, and copies the row of an earlier id, so that memory is
// never idle.
template <typename Id, typename How>
inline int64_t CopyTyped(const SingleRows& block) {
  const Id* const ids = static_cast<const Id*>(block.ids);
  const char* const rows = static_cast<const char*>(block.rows);
  const int64_t row_bytes = block.row_bytes;
  const int64_t stride = block.row_stride;
  const int64_t ahead = RowsAhead(row_bytes);
  const int64_t count = block.count;
  const int64_t* position = block.positions;
  char* pooled = static_cast<char*>(block.pooled);
  const auto fetch = [&](int64_t i) {
    const uint64_t id = static_cast<uint64_t>(ids[i]);
    if (id < block.num_rows) FetchRow(rows + id * stride, row_bytes);
  };
  for (int64_t i = 0; i < ahead && i < count; ++i) fetch(i);
  for (int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) fetch(i + ahead);
    const int64_t id = ids[i];
    if (static_cast<uint64_t>(id) >= block.num_rows) return i;
    if (position != nullptr) {
      if (*position != block.first_bag + i) return i;
      position += block.stride;
    }
    How::Take(block, rows + id * stride, pooled);
    pooled += block.pooled_bytes;
  }
  return count;
}

inline bool FitsVectors(const SingleRows& block) {
  const uintptr_t all = reinterpret_cast<uintptr_t>(block.pooled) |
                        static_cast<uintptr_t>(block.pooled_bytes | block.row_bytes);
  return all % kVectorBytes == 0;
}

template <typename How>
inline int64_t CopyAs(const SingleRows& block) {
  return block.wide_ids ? CopyTyped<int64_t, How>(block) : CopyTyped<int32_t, How>(block);
}

int64_t CopyRows(const SingleRows& block) {
  if (block.type != block.pooled_type) {
    if (block.type == RowType::kHalf) return CopyAs<AsFloats<Half>>(block);
    if (block.type == RowType::kBfloat16) return CopyAs<AsFloats<Bfloat16>>(block);
    return CopyAs<AsFloats<ScaledByte>>(block);
  }
  if (!block.past_caches || !FitsVectors(block)) return CopyAs<Copied>(block);
  const int64_t count = CopyAs<Streamed>(block);
  FinishStores();
  return count;
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_SINGLE_ROWS_H_
