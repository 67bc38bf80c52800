#ifndef GRAPH_OPT_DYNAMIC_ROW_INDEX_H_
#define GRAPH_OPT_DYNAMIC_ROW_INDEX_H_

#include <cstdint>

#include "rows/key_lines.h"

namespace graph_opt {

// The rows of keys. Five keys share a cache line with their rows, so that almost every search reads
// one line and nothing else. Not thread-safe, but may be searched by several threads at once.
class RowIndex {
 public:
  static constexpr uint32_t kAbsent = kNoRow;

  // With room for kKeysPerLine * lines keys, less than which should be used.
  explicit RowIndex(int64_t lines);
  ~RowIndex();
  RowIndex(const RowIndex&) = delete;
  RowIndex& operator=(const RowIndex&) = delete;

  const KeyLines& key_lines() const { return lines_; }

  // Where the search for a key with this hash begins.
  const KeyLine* Home(uint64_t hash) const { return &lines_.first[HomeOf(lines_, hash)]; }

  // The row of a key, or kAbsent. In an index of few lines keys may have passed all of them by.
  uint32_t Find(int64_t key, uint64_t hash) const {
    const uint64_t home = HomeOf(lines_, hash);
    uint64_t at = home;
    do {
      const KeyLine& line = lines_.first[at];
      const uint32_t row = RowIn(line, key);
      if (row != kAbsent || line.passed == 0) return row;
      at = LineAfter(lines_, at);
    } while (at != home);
    return kAbsent;
  }

  // Adds a key that has no row, for which there must be room.
  void Add(int64_t key, uint64_t hash, uint32_t row);

  // Removes a key that has a row.
  void Remove(int64_t key, uint64_t hash);

  // Lets a key that has a row have another one.
  void Replace(int64_t key, uint64_t hash, uint32_t row);

  void Swap(RowIndex* other);

  int64_t size() const { return size_; }
  int64_t lines() const { return static_cast<int64_t>(lines_.count); }
  int64_t bytes() const { return lines() * static_cast<int64_t>(sizeof(KeyLine)); }

 private:
  // Where the row of a key is, which it has. What is passed by on the way has `passed` added.
  uint32_t* PlaceOf(int64_t key, uint64_t hash, int passed);

  KeyLines lines_;
  int64_t size_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_INDEX_H_
