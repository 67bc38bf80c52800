#ifndef GRAPH_OPT_LOOKUP_ROW_SET_H_
#define GRAPH_OPT_LOOKUP_ROW_SET_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace graph_opt {

// Rows of a table, and perhaps a few more: as large as what was added, not as the table. A row is
// one of 2^k bits, so rows may share one; in a table of at most 2^k rows none do.
class RowSet {
 public:
  RowSet() = default;  // of no rows, which takes none

  // Takes about so many rows of a table.
  RowSet(int64_t num_added, int64_t num_rows) {
    constexpr int64_t kBitsOfRow = 32;  // of eight such sets together a quarter is taken at most
    int64_t words = 1;
    while (words * 64 < std::min(num_added * kBitsOfRow, num_rows)) words *= 2;
    words_.assign(words, 0);
  }

  static RowSet OfAll() {
    RowSet set;
    set.all_ = true;
    return set;
  }

  bool all() const { return all_; }
  bool none() const { return !all_ && words_.empty(); }

  void Add(int64_t row) {
    const uint64_t bit = Bit(row);
    words_[bit / 64] |= uint64_t{1} << (bit % 64);
  }

  bool MayHave(int64_t row) const {
    if (words_.empty()) return all_;
    const uint64_t bit = Bit(row);
    return (words_[bit / 64] >> (bit % 64)) & 1;
  }

  void Add(const RowSet& other) {
    if (other.all_) *this = OfAll();
    if (all_) return;
    const size_t before = words_.size();
    if (before == 0) {
      *this = other;
      return;
    }
    // A row's bit in a smaller set is that in a larger one without its upper digits.
    words_.resize(std::max(before, other.words_.size()));
    for (size_t i = before; i < words_.size(); ++i) words_[i] = words_[i % before];
    const size_t mask = other.words_.size() - 1;
    if (other.words_.empty()) return;
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i & mask];
  }

  // Leaves only rows that both sets have.
  void Keep(const RowSet& other) {
    if (other.all_) return;
    if (all_ || other.words_.empty() || words_.empty()) {
      *this = all_ ? other : RowSet();
      return;
    }
    const size_t before = words_.size();
    words_.resize(std::max(before, other.words_.size()));
    for (size_t i = before; i < words_.size(); ++i) words_[i] = words_[i % before];
    const size_t mask = other.words_.size() - 1;
    uint64_t any = 0;
    for (size_t i = 0; i < words_.size(); ++i) any |= words_[i] &= other.words_[i & mask];
    if (any == 0) words_.clear();
  }

 private:
  // Digits are only mixed downward, so that rows below 2^k keep k bits and different ones.
  uint64_t Bit(int64_t row) const {
    const uint64_t number = static_cast<uint64_t>(row);
    return (number ^ (number >> 13) ^ (number >> 26)) & (words_.size() * 64 - 1);
  }

  std::vector<uint64_t> words_;  // a power of two of them
  bool all_ = false;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_ROW_SET_H_
