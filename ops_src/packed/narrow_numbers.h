#ifndef GRAPH_OPT_PACKED_NARROW_NUMBERS_H_
#define GRAPH_OPT_PACKED_NARROW_NUMBERS_H_

#include <cstdint>
#include <cstring>

namespace graph_opt {

// Numbers from 0 on that travel in as few bytes each as the greatest needs, filled up to words.
constexpr int64_t kWordBytes = sizeof(int64_t);

inline int64_t WordsOf(int64_t count, int64_t bytes) {
  return (count * bytes + kWordBytes - 1) / kWordBytes;
}

inline int BytesFor(int32_t greatest) { return greatest < 1 << 8 ? 1 : greatest < 1 << 16 ? 2 : 4; }

// Fills up to a word behind `count` numbers. Returns the end. What fills up is the same for the
// same numbers, and no number lies in a word that is written as one: compilers may swap such
// writes.
inline int64_t* FillUp(int64_t* words, int64_t count, int64_t bytes) {
  const int64_t used = count * bytes;
  const int64_t num_words = WordsOf(count, bytes);
  std::memset(reinterpret_cast<char*>(words) + used, 0, num_words * kWordBytes - used);
  return words + num_words;
}

// Returns the end of what it wrote.
int64_t* WriteNumbers(const int32_t* numbers, int64_t count, int bytes, int64_t* words);

void ReadNumbers(const int64_t* words, int64_t count, int bytes, int32_t* numbers);
void ReadNumbers(const int64_t* words, int64_t count, int bytes, int64_t* numbers);

inline bool IsWidth(int bytes) { return bytes == 1 || bytes == 2 || bytes == 4; }

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_NARROW_NUMBERS_H_
