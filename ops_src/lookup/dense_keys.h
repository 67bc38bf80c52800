#ifndef GRAPH_OPT_LOOKUP_DENSE_KEYS_H_
#define GRAPH_OPT_LOOKUP_DENSE_KEYS_H_

#include <algorithm>
#include <cstdint>

#include "rows/row_kernels.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// The distinct keys of a range as a bit set, which orders them without sorting.
class DenseKeys {
 public:
  // Whether a bit set pays: the range is small for so many ids. Clearing and counting bits works on
  // whole words, which is cheap compared to reading an id.
  static bool Pay(int64_t begin, int64_t end, size_t num_ids) {
    constexpr size_t kWordsPerId = 4;
    return NumWords(begin, end) <= kWordsPerId * num_ids;
  }

  // Empties the set for keys in [begin, end).
  void Begin(int64_t begin, int64_t end) {
    first_key_ = static_cast<uint64_t>(begin);
    num_words_ = NumWords(begin, end);
    bits_.Reserve(static_cast<int64_t>(num_words_));
    std::fill_n(bits_.data(), num_words_, uint64_t{0});
  }

  void Add(uint64_t key) {
    const uint64_t place = key - first_key_;
    bits_[place / 64] |= uint64_t{1} << (place % 64);
  }

  // Numbers the keys in ascending order. Returns how many there are.
  int64_t Rank() {
    ranks_.Reserve(static_cast<int64_t>(num_words_));
    uint32_t count = 0;
    for (size_t word = 0; word < num_words_; ++word) {
      ranks_[word] = count;
      count += static_cast<uint32_t>(__builtin_popcountll(bits_[word]));
    }
    return count;
  }

  // Calls take(key, rank) for each key, ascending.
  template <typename Take>
  void ForEach(const Take& take) const {
    int64_t rank = 0;
    for (size_t word = 0; word < num_words_; ++word) {
      for (uint64_t left = bits_[word]; left != 0; left &= left - 1) {
        take(first_key_ + 64 * word + static_cast<uint64_t>(__builtin_ctzll(left)), rank++);
      }
    }
  }

  // The ranked keys, as row kernels take them.
  KeySet set() const { return KeySet{first_key_, bits_.data(), ranks_.data()}; }

 private:
  static size_t NumWords(int64_t begin, int64_t end) {
    return static_cast<size_t>((end - begin + 63) / 64);
  }

  uint64_t first_key_ = 0;
  size_t num_words_ = 0;
  ScratchArray<uint64_t> bits_;
  ScratchArray<uint32_t> ranks_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_DENSE_KEYS_H_
