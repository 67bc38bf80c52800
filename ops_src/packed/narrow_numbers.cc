#include "packed/narrow_numbers.h"

namespace graph_opt {
namespace {

template <typename Narrow>
void Narrowed(const int32_t* numbers, int64_t count, int64_t* words) {
  char* const to = reinterpret_cast<char*>(words);
  for (int64_t i = 0; i < count; ++i) {
    const Narrow narrow = static_cast<Narrow>(numbers[i]);
    std::memcpy(to + i * sizeof(narrow), &narrow, sizeof(narrow));
  }
}

template <typename Narrow, typename Number>
void Widened(const int64_t* words, int64_t count, Number* numbers) {
  const char* const from = reinterpret_cast<const char*>(words);
  for (int64_t i = 0; i < count; ++i) {
    Narrow narrow;
    std::memcpy(&narrow, from + i * sizeof(narrow), sizeof(narrow));
    numbers[i] = static_cast<Number>(narrow);
  }
}

template <typename Number>
void Read(const int64_t* words, int64_t count, int bytes, Number* numbers) {
  if (bytes == 1) Widened<uint8_t>(words, count, numbers);
  if (bytes == 2) Widened<uint16_t>(words, count, numbers);
  if (bytes == 4) Widened<uint32_t>(words, count, numbers);
}

}  // namespace

int64_t* WriteNumbers(const int32_t* numbers, int64_t count, int bytes, int64_t* words) {
  if (bytes == 1) Narrowed<uint8_t>(numbers, count, words);
  if (bytes == 2) Narrowed<uint16_t>(numbers, count, words);
  if (bytes == 4) Narrowed<uint32_t>(numbers, count, words);
  return FillUp(words, count, bytes);
}

void ReadNumbers(const int64_t* words, int64_t count, int bytes, int32_t* numbers) {
  Read(words, count, bytes, numbers);
}

void ReadNumbers(const int64_t* words, int64_t count, int bytes, int64_t* numbers) {
  Read(words, count, bytes, numbers);
}

}  // namespace graph_opt
