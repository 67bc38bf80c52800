#ifndef GRAPH_OPT_DYNAMIC_ROW_INDEX_H_
#define GRAPH_OPT_DYNAMIC_ROW_INDEX_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace graph_opt {

// Rows by the hashes of their keys, which it does not keep: whoever looks for a row says whether
// one is it. Twelve rows share a cache line with a byte of each one's hash, so that almost every
// search reads one line here, and no key that is not the one. (The layout of F14, from
// "Open-sourcing F14 for faster, more memory-efficient hash tables", Bronson and Shi 2019.) Not
// thread-safe.
class RowIndex {
 public:
  static constexpr uint32_t kAbsent = 0;  // row 0 is nobody's
  static constexpr int64_t kRowsPerLine = 12;

  // With room for kRowsPerLine * lines rows, less than which should be used. A power of two.
  explicit RowIndex(int64_t lines);

  // Fetches what Find reads first.
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&lines_.get()[Home(hash)]); }

  // The first row with this hash, as far as it is known, that is_it(row) takes; or kAbsent.
  template <typename IsIt>
  uint32_t Find(uint64_t hash, IsIt is_it) const {
    const uint8_t tag = Tag(hash);
    for (uint64_t at = Home(hash);; at = (at + 1) & mask_) {
      const Line& line = lines_.get()[at];
      for (uint32_t places = line.Places(tag); places != 0; places &= places - 1) {
        const uint32_t row = line.rows[__builtin_ctz(places)];
        if (is_it(row)) return row;
      }
      if (line.passed == 0) return kAbsent;
    }
  }

  // Adds a row, for which there must be room.
  void Add(uint64_t hash, uint32_t row);

  // Removes a row that was added with this hash.
  void Remove(uint64_t hash, uint32_t row);

  // Lets a row's key have another one.
  void Replace(uint64_t hash, uint32_t row, uint32_t other);

  void Swap(RowIndex* other);

  int64_t size() const { return size_; }
  int64_t lines() const { return static_cast<int64_t>(mask_) + 1; }
  int64_t bytes() const { return lines() * static_cast<int64_t>(sizeof(Line)); }

 private:
  struct Line {
    uint8_t tags[kRowsPerLine];  // 0 where there is no row
    uint32_t passed;  // rows that begin their search here, or pass by, and are further on
    uint32_t rows[kRowsPerLine];

    // A bit for each place with this tag.
    uint32_t Places(uint8_t tag) const {
#ifdef __SSE2__
      const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(tags));
      const __m128i same = _mm_cmpeq_epi8(all, _mm_set1_epi8(static_cast<char>(tag)));
      return static_cast<uint32_t>(_mm_movemask_epi8(same)) & ((1u << kRowsPerLine) - 1);
#else
      uint32_t places = 0;
      for (int i = 0; i < kRowsPerLine; ++i) places |= uint32_t{tags[i] == tag} << i;
      return places;
#endif
    }
  };
  static_assert(sizeof(Line) == 64, "a cache line");

  struct Free {
    void operator()(Line* lines) const { std::free(lines); }
  };

  static uint8_t Tag(uint64_t hash) {
    const uint8_t byte = static_cast<uint8_t>(hash);
    return byte == 0 ? 1 : byte;
  }
  uint64_t Home(uint64_t hash) const { return (hash >> 8) & mask_; }
  // Where a row is, and what it passes by on the way, to which `passed` adds.
  Line* LineOf(uint64_t hash, uint32_t row, int passed, int* place);

  uint64_t mask_;
  std::unique_ptr<Line, Free> lines_;
  int64_t size_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_INDEX_H_
