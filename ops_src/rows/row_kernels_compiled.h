// The functions of row_kernels.h, compiled once for each instruction set (vector_lanes.h).
#ifndef GRAPH_OPT_ROWS_ROW_KERNELS_COMPILED_H_
#define GRAPH_OPT_ROWS_ROW_KERNELS_COMPILED_H_

#include "rows/idle_rows.h"
#include "rows/read_rows.h"
#include "rows/row_kernels.h"
#include "rows/run_sums.h"
#include "rows/search_keys.h"
#include "rows/single_rows.h"
#include "rows/update_rows.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

// TensorFlow's SparseSegment ops add the first `n % 8` rows (8 for 0, 9 for 1), then eight by
// eight, each eight summed on its own. The same order gives the same bits.
inline int64_t RowsBeforeEights(int64_t n) {
  if (n <= 9) return n;
  const int64_t rest = n % 8;
  return rest < 2 ? rest + 8 : rest;
}

// Columns [at, at + kParts * kLanes) of a bag's rows, summed. `some` is the number of columns when
// they are fewer than one vector, else 0.
template <typename T, int kParts>
struct Columns {
  static inline Floats Read(const void* row, int64_t at, int part, int some) {
    return ReadRow(static_cast<const T*>(row), at + part * kLanes, some);
  }

  template <typename Pooled>
  static inline void Write(const Floats* lanes, Pooled* to, int some) {
    for (int p = 0; p < kParts; ++p) {
      if (some == 0) {
        Store(lanes[p], to + p * kLanes);
      } else {
        StoreSome(lanes[p], to, some);
      }
    }
  }

  static inline void Sum(const void* const* rows, int64_t n, int64_t at, int some, Floats* total) {
    for (int p = 0; p < kParts; ++p) total[p] = Read(rows[0], at, p, some);
    const int64_t first = RowsBeforeEights(n);
    for (int64_t j = 1; j < first; ++j) {
      for (int p = 0; p < kParts; ++p) total[p] += Read(rows[j], at, p, some);
    }
    for (int64_t j = first; j < n; j += 8) {
      Floats eight[kParts];
      for (int p = 0; p < kParts; ++p) eight[p] = Read(rows[j], at, p, some);
      for (int64_t i = j + 1; i < j + 8; ++i) {
        for (int p = 0; p < kParts; ++p) eight[p] += Read(rows[i], at, p, some);
      }
      for (int p = 0; p < kParts; ++p) total[p] += eight[p];
    }
  }

  static inline void WeightedSum(const void* const* rows, const float* weights, int64_t n,
                                 int64_t at, int some, Floats* total) {
    for (int p = 0; p < kParts; ++p) total[p] = Read(rows[0], at, p, some) * Broadcast(weights[0]);
    for (int64_t j = 1; j < n; ++j) {
      const Floats weight = Broadcast(weights[j]);
      for (int p = 0; p < kParts; ++p) total[p] += Read(rows[j], at, p, some) * weight;
    }
  }
};

// TensorFlow 2 multiplies the sum of a short bag by the inverse of what TensorFlow 1 divides it by.
#if defined(GRAPH_OPT_TENSORFLOW) && GRAPH_OPT_TENSORFLOW < 2000
constexpr int64_t kMultipliedBag = 0;
#else
constexpr int64_t kMultipliedBag = 9;  // rows, at most
#endif

// What a bag's sum is divided by; not read where it is not divided.
inline float DivisorOf(const PoolBlock& block, int64_t begin, int64_t end) {
  const int64_t n = end - begin;
  if (block.combiner == Combiner::kSum) return 1;
  if (block.weights == nullptr) {
    return IsMean(block.combiner) ? static_cast<float>(n)
                                  : static_cast<float>(sqrt(static_cast<double>(n)));
  }
  float total = 0;
  for (int64_t j = begin; j < end; ++j) total += PartOfTotal(block.combiner, block.weights[j]);
  return DivisorOfTotal(block.combiner, total);
}

template <typename T, int kParts, typename Pooled>
inline void PoolColumns(const PoolBlock& block, int64_t begin, int64_t end, float divisor,
                        int64_t at, int some, Pooled* pooled) {
  typedef Columns<T, kParts> Part;
  Floats total[kParts];
  const void* const* rows = block.rows + begin;
  const int64_t n = end - begin;
  if (block.weights == nullptr) {
    Part::Sum(rows, n, at, some, total);
  } else {
    Part::WeightedSum(rows, block.weights + begin, n, at, some, total);
  }
  if (block.combiner != Combiner::kSum) {
    const bool multiplies = block.weights == nullptr && n <= kMultipliedBag;
    const Floats by = Broadcast(multiplies ? 1.0f / divisor : divisor);
    for (int p = 0; p < kParts; ++p) {
      total[p] = multiplies ? total[p] * by : DividesToZero(divisor) ? Floats{} : total[p] / by;
    }
  }
  Part::Write(total, pooled + at, some);
}

// The pooled row of a bag without ids.
template <typename Pooled>
inline void PoolNothing(const PoolBlock& block, Pooled* pooled) {
  const int64_t dim = block.dim;
  if (!GivesNan(block.combiner)) {
    memset(pooled, 0, dim * sizeof(Pooled));
    return;
  }
  const Floats nan = Broadcast(NAN);
  int64_t at = 0;
  for (; at + kLanes <= dim; at += kLanes) Store(nan, pooled + at);
  if (at < dim) StoreSome(nan, pooled + at, static_cast<int>(dim - at));
}

template <typename T, typename Pooled>
inline void PoolBag(const PoolBlock& block, int64_t begin, int64_t end, Pooled* pooled) {
  const int64_t dim = block.dim;
  if (begin == end) return PoolNothing(block, pooled);
  const float divisor = DivisorOf(block, begin, end);
  int64_t at = 0;
  for (; at + 4 * kLanes <= dim; at += 4 * kLanes) {
    PoolColumns<T, 4>(block, begin, end, divisor, at, 0, pooled);
  }
  for (; at + kLanes <= dim; at += kLanes) {
    PoolColumns<T, 1>(block, begin, end, divisor, at, 0, pooled);
  }
  if (at < dim) {
    PoolColumns<T, 1>(block, begin, end, divisor, at, static_cast<int>(dim - at), pooled);
  }
}

// The pooled row of a bag of one id and no weight.
template <typename T>
inline void PoolOne(const PoolBlock& block, const void* row, void* pooled) {
  if (block.pooled_type != block.type) {
    RowToFloats<T>(row, block.dim, static_cast<float*>(pooled));
  } else {
    CopyRow(row, RowBytesOf(block.type, block.dim), pooled);
  }
}

template <typename T, typename Pooled>
inline void PoolTyped(const PoolBlock& block) {
  const int64_t count = block.offsets[block.num_bags];
  const int64_t row_bytes = RowBytesOf(block.type, block.dim);
  const int64_t ahead = RowsAhead(row_bytes);
  int64_t fetched = 0;
  for (int64_t i = 0; i < block.num_bags; ++i) {
    const int64_t begin = block.offsets[i];
    const int64_t end = block.offsets[i + 1];
    const int64_t fetch_end = end + ahead < count ? end + ahead : count;
    for (; fetched < fetch_end; ++fetched) FetchRow(block.rows[fetched], row_bytes);
    Pooled* pooled = static_cast<Pooled*>(block.pooled) + i * block.pooled_stride;
    if (end - begin == 1 && block.weights == nullptr) {
      PoolOne<T>(block, block.rows[begin], pooled);
    } else {
      PoolBag<T>(block, begin, end, pooled);
    }
  }
}

void Pool(const PoolBlock& block) {
  const bool to_floats = block.pooled_type == RowType::kFloat;
  switch (block.type) {
    case RowType::kFloat:
      return PoolTyped<float, float>(block);
    case RowType::kHalf:
      return to_floats ? PoolTyped<Half, float>(block) : PoolTyped<Half, Half>(block);
    case RowType::kBfloat16:
      return to_floats ? PoolTyped<Bfloat16, float>(block) : PoolTyped<Bfloat16, Bfloat16>(block);
    case RowType::kScaledBytes:
      return PoolTyped<ScaledByte, float>(block);
  }
}

extern const RowKernels kRowKernels;
const RowKernels kRowKernels = {GRAPH_OPT_SET_NAME, kLanes,      Pool,
                                CopyRows,           AddToRows,   SumRuns,
                                UpdateRuns,         CatchUpRows, SearchKeys};

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_ROW_KERNELS_COMPILED_H_
