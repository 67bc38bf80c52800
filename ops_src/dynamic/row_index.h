#ifndef GRAPH_OPT_DYNAMIC_ROW_INDEX_H_
#define GRAPH_OPT_DYNAMIC_ROW_INDEX_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace graph_opt {

// The rows of keys. Five keys share a cache line with their rows, so that almost every search reads
// one line and nothing else. Not thread-safe, but may be searched by several threads at once.
class RowIndex {
 public:
  static constexpr uint32_t kAbsent = 0;  // row 0 is nobody's
  static constexpr int64_t kKeysPerLine = 5;

  struct Line {
    uint32_t passed;  // keys that begin their search here, or pass by, and are further on
    uint32_t rows[kKeysPerLine];  // kAbsent where there is no key
    int64_t keys[kKeysPerLine];

    // The key's row if it is in this line. Without branches, none of which could be foreseen.
    uint32_t RowOf(int64_t key) const {
      uint32_t row = kAbsent;
      for (int i = 0; i < kKeysPerLine; ++i) row |= rows[i] & -uint32_t{keys[i] == key};
      return row;
    }
  };
  static_assert(sizeof(Line) == 64, "a cache line");

  // With room for kKeysPerLine * lines keys, less than which should be used.
  explicit RowIndex(int64_t lines);

  // Where the search for a key with this hash begins.
  const Line* Home(uint64_t hash) const { return &lines_.get()[HomeOf(hash)]; }

  // Where it goes on, unless no key passed the line by, or that is where it began.
  const Line* Next(const Line* line) const {
    return &lines_.get()[After(static_cast<uint64_t>(line - lines_.get()))];
  }

  // The row of a key, or kAbsent. In an index of few lines keys may have passed all of them by.
  uint32_t Find(int64_t key, uint64_t hash) const {
    const uint64_t home = HomeOf(hash);
    uint64_t at = home;
    do {
      const Line& line = lines_.get()[at];
      const uint32_t row = line.RowOf(key);
      if (row != kAbsent || line.passed == 0) return row;
      at = After(at);
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
  int64_t lines() const { return static_cast<int64_t>(num_lines_); }
  int64_t bytes() const { return lines() * static_cast<int64_t>(sizeof(Line)); }

 private:
  struct Free {
    void operator()(Line* lines) const { std::free(lines); }
  };

  // The leading bits of a hash say which stripe a key is of, so these are the others.
  uint64_t HomeOf(uint64_t hash) const { return static_cast<uint32_t>(hash) * num_lines_ >> 32; }
  uint64_t After(uint64_t at) const { return at + 1 < num_lines_ ? at + 1 : 0; }
  // Where the row of a key is, which it has. What is passed by on the way has `passed` added.
  uint32_t* PlaceOf(int64_t key, uint64_t hash, int passed);

  uint64_t num_lines_;
  std::unique_ptr<Line, Free> lines_;
  int64_t size_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_INDEX_H_
