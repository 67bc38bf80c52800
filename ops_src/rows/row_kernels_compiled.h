// The functions of row_kernels.h, compiled once for each instruction set (vector_lanes.h).
#ifndef GRAPH_OPT_ROWS_ROW_KERNELS_COMPILED_H_
#define GRAPH_OPT_ROWS_ROW_KERNELS_COMPILED_H_

#include "rows/idle_rows.h"
#include "rows/row_kernels.h"
#include "rows/run_sums.h"
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
    const T* from = static_cast<const T*>(row) + at + part * kLanes;
    return some == 0 ? Load(from) : LoadSome(from, some);
  }

  static inline void Write(const Floats* lanes, T* to, int some) {
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

template <typename T, int kParts>
inline void PoolColumns(const PoolBlock& block, int64_t begin, int64_t end, float divisor,
                        int64_t at, int some, T* pooled) {
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
template <typename T>
inline void PoolNothing(const PoolBlock& block, T* pooled) {
  const int64_t dim = block.dim;
  if (!GivesNan(block.combiner)) {
    memset(pooled, 0, dim * sizeof(T));
    return;
  }
  const Floats nan = Broadcast(NAN);
  int64_t at = 0;
  for (; at + kLanes <= dim; at += kLanes) Store(nan, pooled + at);
  if (at < dim) StoreSome(nan, pooled + at, static_cast<int>(dim - at));
}

template <typename T>
inline void PoolBag(const PoolBlock& block, int64_t begin, int64_t end, T* pooled) {
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

template <typename T>
inline void PoolTyped(const PoolBlock& block) {
  const int64_t count = block.offsets[block.num_bags];
  const int64_t row_bytes = block.dim * static_cast<int64_t>(sizeof(T));
  const int64_t ahead = RowsAhead(row_bytes);
  int64_t fetched = 0;
  for (int64_t i = 0; i < block.num_bags; ++i) {
    const int64_t begin = block.offsets[i];
    const int64_t end = block.offsets[i + 1];
    const int64_t fetch_end = end + ahead < count ? end + ahead : count;
    for (; fetched < fetch_end; ++fetched) FetchRow(block.rows[fetched], row_bytes);
    T* pooled = static_cast<T*>(block.pooled) + i * block.pooled_stride;
    if (end - begin == 1 && block.weights == nullptr) {
      CopyRow(block.rows[begin], row_bytes, pooled);
    } else {
      PoolBag(block, begin, end, pooled);
    }
  }
}

void Pool(const PoolBlock& block) {
  switch (block.type) {
    case RowType::kFloat:
      return PoolTyped<float>(block);
    case RowType::kHalf:
      return PoolTyped<Half>(block);
    case RowType::kBfloat16:
      return PoolTyped<Bfloat16>(block);
  }
}

extern const RowKernels kRowKernels;
const RowKernels kRowKernels = {GRAPH_OPT_SET_NAME, kLanes,  Pool,       CopyRows,
                                AddToRows,          SumRuns, UpdateRuns, CatchUpRows};

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_ROW_KERNELS_COMPILED_H_
