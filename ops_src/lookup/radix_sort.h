#ifndef GRAPH_OPT_LOOKUP_RADIX_SORT_H_
#define GRAPH_OPT_LOOKUP_RADIX_SORT_H_

#include <algorithm>
#include <cstdint>

#include "scratch/scratch_array.h"

namespace graph_opt {

// How many bits the numbers below `count` need.
inline int BitsFor(uint64_t count) {
  int bits = 0;
  while (bits < 64 && (uint64_t{1} << bits) < count) ++bits;
  return bits;
}

// Stably sorts the first `count` of `words` by bits [low, high). `scratch` grows to the same size;
// the two may be swapped.
inline void RadixSort(int low, int high, ScratchArray<uint64_t>* words,
                      ScratchArray<uint64_t>* scratch, size_t count) {
  constexpr size_t kFewWords = 192;   // below, clearing the histograms costs more than comparing
  constexpr int kMostDigitBits = 11;  // 2048 counters of 4 bytes, a quarter of the L1 cache
  constexpr int kMostPasses = 6;      // of 64 bits
  if (count < kFewWords) {
    std::stable_sort(words->data(), words->data() + count,
                     [low](uint64_t a, uint64_t b) { return (a >> low) < (b >> low); });
    return;
  }
  const int bits = high - low;
  if (bits <= 0) return;
  const int passes = (bits + kMostDigitBits - 1) / kMostDigitBits;
  const int digit_bits = (bits + passes - 1) / passes;
  const uint64_t mask = (uint64_t{1} << digit_bits) - 1;
  scratch->Reserve(static_cast<int64_t>(count));
  uint32_t counts[kMostPasses][1 << kMostDigitBits];
  for (int pass = 0; pass < passes; ++pass) std::fill_n(counts[pass], mask + 1, 0u);
  for (size_t i = 0; i < count; ++i) {
    uint64_t key = (*words)[i] >> low;
    for (int pass = 0; pass < passes; ++pass, key >>= digit_bits) ++counts[pass][key & mask];
  }
  for (int pass = 0; pass < passes; ++pass) {
    uint32_t* const starts = counts[pass];
    uint32_t start = 0;
    for (uint64_t digit = 0; digit <= mask; ++digit) {
      const uint32_t here = starts[digit];
      starts[digit] = start;
      start += here;
    }
    const int shift = low + pass * digit_bits;
    const uint64_t* const from = words->data();
    uint64_t* const to = scratch->data();
    for (size_t i = 0; i < count; ++i) to[starts[(from[i] >> shift) & mask]++] = from[i];
    words->Swap(scratch);
  }
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_RADIX_SORT_H_
