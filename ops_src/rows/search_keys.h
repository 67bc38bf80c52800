// Keys are searched in the order in which they come, and nothing is changed; part of
// row_kernels_compiled.h. Lines are fetched some time before they are looked at; keys that are not
// in their first line come to the next one together, so memory is not waited for either.
#ifndef GRAPH_OPT_ROWS_SEARCH_KEYS_H_
#define GRAPH_OPT_ROWS_SEARCH_KEYS_H_

#include "keys/key_hash.h"
#include "rows/key_lines.h"
#include "rows/vector_lanes.h"

namespace graph_opt {
namespace GRAPH_OPT_SET {

constexpr int64_t kKeysAtOnce = 64;
constexpr int64_t kMostElsewhere = 1024;

// A key that is not in this line, nor in those before.
struct SearchedKey {
  int64_t place;
  const KeyLine* line;
};

// RowIn. Of keys that are equal, only the first may have a row.
#if defined(__AVX512F__)
inline GRAPH_OPT_INLINED uint32_t FirstRowIn(const KeyLine& line, int64_t key) {
  const __m512i wanted = _mm512_set1_epi64(key);
  const __mmask8 equal = _mm512_cmpeq_epi64_mask(_mm512_load_si512(&line), wanted);
  const __m256i half = _mm256_load_si256(reinterpret_cast<const __m256i*>(&line));  // with all rows
  const __m256i row = _mm256_maskz_compress_epi32(_kshiftri_mask8(equal, kFirstKeyAt), half);
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm256_castsi256_si128(row)));
}
#elif defined(__AVX2__)
inline GRAPH_OPT_INLINED uint32_t FirstRowIn(const KeyLine& line, int64_t key) {
  const __m256i wanted = _mm256_set1_epi64x(key);
  const __m256i* const halves = reinterpret_cast<const __m256i*>(&line);
  const __m256i low = _mm256_cmpeq_epi64(_mm256_load_si256(halves), wanted);
  const __m256i high = _mm256_cmpeq_epi64(_mm256_load_si256(halves + 1), wanted);
  const int equal = _mm256_movemask_pd((__m256d)low) | _mm256_movemask_pd((__m256d)high) << 4;
  const uint32_t of_rows = static_cast<uint32_t>(equal) >> kFirstKeyAt;
  const int first = __builtin_ctz(of_rows | 1u << (kKeysPerLine - 1));
  return line.rows[first] & -uint32_t{of_rows != 0};
}
#else
inline uint32_t FirstRowIn(const KeyLine& line, int64_t key) { return RowIn(line, key); }
#endif

// Fetches the lines in which the search for the next keys begins.
inline void FetchHomes(const KeySearch& search, int64_t begin, const KeyLine** homes) {
  const int64_t left = search.end - begin;
  const int64_t count = left < kKeysAtOnce ? left : kKeysAtOnce;
  uint64_t hashes[kKeysAtOnce];
  // A loop of its own, for which the compiler uses vectors.
  for (int64_t i = 0; i < count; ++i) {
    hashes[i] = MixKey(static_cast<uint64_t>(search.keys[begin + i]));
  }
  for (int64_t i = 0; i < count; ++i) {
    const KeyLines& lines = search.stripes[hashes[i] >> search.stripe_shift];
    homes[i] = lines.first + HomeOf(lines, hashes[i]);
    __builtin_prefetch(homes[i]);
  }
}

// Looks keys up in their next lines. Returns how many may be further on, and moves them to the
// front.
inline int64_t SearchOn(const KeySearch& search, SearchedKey* keys, int64_t count) {
  int64_t num_next = 0;
  for (int64_t i = 0; i < count; ++i) {
    const SearchedKey searched = keys[i];
    if (searched.line->passed == 0) continue;
    const uint64_t hash = MixKey(static_cast<uint64_t>(search.keys[searched.place]));
    const KeyLines& lines = search.stripes[hash >> search.stripe_shift];
    const uint64_t next = LineAfter(lines, static_cast<uint64_t>(searched.line - lines.first));
    if (next == HomeOf(lines, hash)) continue;
    __builtin_prefetch(lines.first + next);
    keys[num_next++] = {searched.place, lines.first + next};
  }
  int64_t num_further = 0;
  for (int64_t i = 0; i < num_next; ++i) {
    const SearchedKey searched = keys[i];
    const uint32_t row = FirstRowIn(*searched.line, search.keys[searched.place]);
    search.rows[searched.place] = row;
    keys[num_further] = searched;
    num_further += row == kNoRow;
  }
  return num_further;
}

// Finds keys that are not in their first lines. Returns how many have no row, and writes which.
inline int64_t SearchElsewhere(const KeySearch& search, const SearchedKey* elsewhere, int64_t count,
                               uint32_t* missed) {
  SearchedKey left[kMostElsewhere];
  memcpy(left, elsewhere, static_cast<size_t>(count) * sizeof(SearchedKey));
  for (int64_t num_left = count; num_left > 0;) num_left = SearchOn(search, left, num_left);
  int64_t num_missed = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = elsewhere[i].place;
    if (search.rows[place] == kNoRow) missed[num_missed++] = static_cast<uint32_t>(place);
  }
  return num_missed;
}

int64_t SearchKeys(const KeySearch& search) {
  int64_t num_missed = 0, num_elsewhere = 0;
  SearchedKey elsewhere[kMostElsewhere];
  const KeyLine* fetched[2][kKeysAtOnce];
  int turn = 0;
  FetchHomes(search, search.begin, fetched[turn]);
  for (int64_t from = search.begin; from < search.end; from += kKeysAtOnce, turn = 1 - turn) {
    const bool is_last = search.end - from <= kKeysAtOnce;
    const int64_t end = is_last ? search.end : from + kKeysAtOnce;
    if (!is_last) FetchHomes(search, end, fetched[1 - turn]);
    for (int64_t place = from; place < end; ++place) {
      const KeyLine* const home = fetched[turn][place - from];
      const uint32_t row = FirstRowIn(*home, search.keys[place]);
      search.rows[place] = row;
      elsewhere[num_elsewhere] = {place, home};
      num_elsewhere += row == kNoRow;
    }
    if (num_elsewhere <= kMostElsewhere - kKeysAtOnce && !is_last) continue;
    num_missed += SearchElsewhere(search, elsewhere, num_elsewhere, search.missed + num_missed);
    num_elsewhere = 0;
  }
  return num_missed;
}

}  // namespace GRAPH_OPT_SET
}  // namespace graph_opt

#endif  // GRAPH_OPT_ROWS_SEARCH_KEYS_H_
