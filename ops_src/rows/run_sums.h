// Sums of the gradients of equal rows; part of row_kernels_compiled.h.
#ifndef GRAPH_OPT_ROWS_RUN_SUMS_H_
#define GRAPH_OPT_ROWS_RUN_SUMS_H_

#include "rows/row_kernels.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

constexpr int64_t kLineBytes = 64;

// How many rows ahead memory is asked for: some 48 lines are under way at a time, which is about
// what a core can wait for; more gain nothing.
inline int64_t RowsAhead(int64_t row_bytes) {
  const int64_t lines = (row_bytes + kLineBytes - 1) / kLineBytes;
  const int64_t rows = 48 / lines;
  return rows < 2 ? 2 : rows;
}

// Asks for a row's first lines; of longer ones the hardware fetches the rest.
inline void FetchRow(const void* row, int64_t row_bytes) {
  const int64_t bytes = row_bytes < 8 * kLineBytes ? row_bytes : 8 * kLineBytes;
  const char* const from = static_cast<const char*>(row);
  for (int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(from + at);
  // The row may begin in mid-line, and so end in another one.
  if ((reinterpret_cast<uintptr_t>(from) | static_cast<uintptr_t>(bytes)) % kLineBytes != 0) {
    __builtin_prefetch(from + bytes - 1);
  }
  // To GCC a function that does nothing but this has no effect, and calls of it are removed.
  __asm__ volatile("");
}

inline const char* GradientOf(const Occurrences& all, int64_t payload, int64_t element_bytes) {
  if (all.gradient_rows != nullptr) return static_cast<const char*>(all.gradient_rows[payload]);
  return static_cast<const char*>(all.gradients) + payload * all.stride * element_bytes;
}

// The occurrences [begin, end) of one row. kMask has bit 0 for divisors, bit 1 for scales.
template <typename T, int kMask>
struct Run {
  const Occurrences& all;
  int64_t begin, end;
  uint64_t payload_mask;

  inline GRAPH_OPT_INLINED Floats Of(int64_t j, int64_t at, int some) const {
    const int64_t payload = all.sorted[j] & payload_mask;
    const T* from = reinterpret_cast<const T*>(GradientOf(all, payload, sizeof(T))) + at;
    Floats gradient = some == 0 ? Load(from) : LoadSome(from, some);
    if (kMask & 1) {
      const float divisor = all.divisors[payload];
      gradient = DividesToZero(divisor) ? Floats{} : gradient / Broadcast(divisor);
    }
    if (kMask & 2) gradient *= Broadcast(all.scales[payload]);
    return gradient;
  }

  inline GRAPH_OPT_INLINED Floats Sum(int64_t at, int some) const {
    Floats total = Of(begin, at, some);
    for (int64_t j = begin + 1; j < end; ++j) total += Of(j, at, some);
    return total;
  }

  template <typename To>
  inline void SumTo(To* to) const {
    int64_t at = 0;
    for (; at + kLanes <= all.dim; at += kLanes) Store(Sum(at, 0), to + at);
    if (at < all.dim) {
      const int some = static_cast<int>(all.dim - at);
      StoreSome(Sum(at, some), to + at, some);
    }
  }
};

inline int64_t RankOf(const KeySet& keys, uint64_t key) {
  const uint64_t place = key - keys.first_key;
  const uint64_t before = keys.bits[place / 64] & ((uint64_t{1} << (place % 64)) - 1);
  return keys.ranks[place / 64] + __builtin_popcountll(before);
}

template <int kMask>
inline void AddToRowsMasked(const Occurrences& all, const KeySet& keys, float* sums) {
  const int bits = all.payload_bits;
  const uint64_t payload_mask = (uint64_t{1} << bits) - 1;
  const int64_t dim = all.dim;
  const int64_t row_bytes = dim * 4;
  const int64_t ahead = RowsAhead(row_bytes);
  for (int64_t j = 0; j < all.count; ++j) {
    if (j + ahead < all.count) {
      FetchRow(GradientOf(all, all.sorted[j + ahead] & payload_mask, 4), row_bytes);
    }
    float* const sum = sums + RankOf(keys, all.sorted[j] >> bits) * dim;
    const Run<float, kMask> one{all, j, j + 1, payload_mask};
    int64_t at = 0;
    for (; at + kLanes <= dim; at += kLanes) Store(Load(sum + at) + one.Of(j, at, 0), sum + at);
    if (at == dim) continue;
    const int some = static_cast<int>(dim - at);
    StoreSome(LoadSome(sum + at, some) + one.Of(j, at, some), sum + at, some);
  }
}

void AddToRows(const Occurrences& all, const KeySet& keys, float* sums) {
  if (all.divisors != nullptr) return AddToRowsMasked<3>(all, keys, sums);
  if (all.scales != nullptr) return AddToRowsMasked<2>(all, keys, sums);
  AddToRowsMasked<0>(all, keys, sums);
}

// Calls take(run, key) for each run, in order, and fetch(key) some runs before. Returns how many.
template <typename T, int kMask, typename Take, typename Fetch>
inline int64_t ForEachRunMasked(const Occurrences& all, Take take, Fetch fetch) {
  const int bits = all.payload_bits;
  const uint64_t payload_mask = (uint64_t{1} << bits) - 1;
  const int64_t row_bytes = all.dim * static_cast<int64_t>(sizeof(T));
  const int64_t ahead = RowsAhead(row_bytes);
  int64_t runs = 0;
  int64_t fetched = 0;
  uint64_t fetched_key = ~uint64_t{0};
  for (int64_t begin = 0; begin < all.count;) {
    const uint64_t key = all.sorted[begin] >> bits;
    int64_t end = begin + 1;
    while (end < all.count && all.sorted[end] >> bits == key) ++end;
    const int64_t fetch_end = end + ahead < all.count ? end + ahead : all.count;
    for (; fetched < fetch_end; ++fetched) {
      const uint64_t next = all.sorted[fetched] >> bits;
      if (next != fetched_key) fetch(next);
      fetched_key = next;
      FetchRow(GradientOf(all, all.sorted[fetched] & payload_mask, sizeof(T)), row_bytes);
    }
    take(Run<T, kMask>{all, begin, end, payload_mask}, key);
    begin = end;
    ++runs;
  }
  return runs;
}

template <typename T, typename Take, typename Fetch>
inline int64_t ForEachRun(const Occurrences& all, Take take, Fetch fetch) {
  if (all.divisors != nullptr) return ForEachRunMasked<T, 3>(all, take, fetch);
  if (all.scales != nullptr) return ForEachRunMasked<T, 2>(all, take, fetch);
  return ForEachRunMasked<T, 0>(all, take, fetch);
}

template <typename T>
inline int64_t SumRunsTyped(const Occurrences& all, const RunSums& sums) {
  int64_t* indices = sums.indices;
  T* values = static_cast<T*>(sums.values);
  return ForEachRun<T>(
      all,
      [&](const auto& run, uint64_t key) {
        *indices++ = static_cast<int64_t>(key - sums.first_key);
        run.SumTo(values);
        values += all.dim;
      },
      [](uint64_t) {});
}

int64_t SumRuns(const Occurrences& all, const RunSums& sums) {
  switch (all.type) {
    case RowType::kFloat:
      return SumRunsTyped<float>(all, sums);
    case RowType::kHalf:
      return SumRunsTyped<Half>(all, sums);
    case RowType::kBfloat16:
      return SumRunsTyped<Bfloat16>(all, sums);
    case RowType::kScaledBytes:
      break;  // has no gradients
  }
  return 0;
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_RUN_SUMS_H_
