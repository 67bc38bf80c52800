#ifndef GRAPH_OPT_ROWS_KEY_LINES_H_
#define GRAPH_OPT_ROWS_KEY_LINES_H_

#include <stdint.h>

namespace graph_opt {

constexpr uint32_t kNoRow = 0;  // row 0 is nobody's
constexpr int kKeysPerLine = 5;
constexpr int kFirstKeyAt = 3;  // eighths of a line

// Keys with their rows, which share a cache line. A key gets the first place that has no row. So
// what else in the line is equal to it, and has no row, comes after it.
struct KeyLine {
  uint32_t rows[kKeysPerLine];  // kNoRow where there is no key
  uint32_t passed;              // keys that begin their search here, or pass by, and are further on
  int64_t keys[kKeysPerLine];
};
static_assert(sizeof(KeyLine) == 64, "a cache line");

// The lines of all keys whose hashes share the leading bits.
struct KeyLines {
  KeyLine* first;
  uint64_t count;  // below 2^32
};

// Keys [begin, end) to find, and where what was found goes.
struct KeySearch {
  const KeyLines* stripes;  // by the leading bits of a hash
  int stripe_shift;         // how many other bits it has
  const int64_t* keys;
  int64_t begin;
  int64_t end;
  int64_t* rows;     // of each key, or kNoRow
  uint32_t* missed;  // places of keys that have none, ascending
};

// The functions are static, since files that are compiled for different instruction sets have them.

// The line where the search for a key begins. The leading bits of its hash are those of all keys in
// these lines, so the others tell.
static inline uint64_t HomeOf(const KeyLines& lines, uint64_t hash) {
  return static_cast<uint32_t>(hash) * lines.count >> 32;
}

// Where it goes on, unless no key passed the line by, or that is where it began.
static inline uint64_t LineAfter(const KeyLines& lines, uint64_t at) {
  return at + 1 < lines.count ? at + 1 : 0;
}

// The key's row if it is in this line. Without branches, none of which could be foreseen.
static inline uint32_t RowIn(const KeyLine& line, int64_t key) {
  uint32_t row = kNoRow;
  for (int i = 0; i < kKeysPerLine; ++i) row |= line.rows[i] & -uint32_t{line.keys[i] == key};
  return row;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_KEY_LINES_H_
