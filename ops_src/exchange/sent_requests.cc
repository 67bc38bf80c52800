#include "exchange/sent_requests.h"

#include <algorithm>
#include <cstring>

#include "packed/narrow_numbers.h"

namespace graph_opt {
namespace {

constexpr int64_t kNarrowBytes = sizeof(int32_t);

// No early end: a loop over all words is one of vectors.
bool AllFit(const int64_t* words, int64_t size) {
  int64_t lost = 0;
  for (int64_t i = 0; i < size; ++i) lost |= words[i] ^ static_cast<int32_t>(words[i]);
  return lost == 0;
}

}  // namespace

EncodedRequest::EncodedRequest(const int64_t* words, int64_t size)
    : words_(words), size_(size), is_narrow_(AllFit(words, size)) {}

int64_t EncodedRequest::num_words() const {
  return 1 + (is_narrow_ ? WordsOf(size_, kNarrowBytes) : size_);
}

void EncodedRequest::Write(int64_t* to) const {
  *to++ = is_narrow_ ? size_ : 0;
  if (!is_narrow_) {
    std::copy(words_, words_ + size_, to);
    return;
  }
  char* const numbers = reinterpret_cast<char*>(to);
  FillUp(to, size_, kNarrowBytes);
  for (int64_t i = 0; i < size_; ++i) {
    const int32_t number = static_cast<int32_t>(words_[i]);
    std::memcpy(numbers + i * kNarrowBytes, &number, kNarrowBytes);
  }
}

absl::Status DecodedRequest::Read(const int64_t* begin, const int64_t* end) {
  const int64_t left = end - begin - 1;
  const int64_t count = left < 0 ? -1 : *begin;
  if (count == 0) {
    words = begin + 1;
    size = left;
    return absl::OkStatus();
  }
  if (count < 0 || count > 2 * left || WordsOf(count, kNarrowBytes) != left) {
    return absl::InvalidArgumentError("the request has another size than it says");
  }
  owned.reset(new int64_t[count]);
  const char* const numbers = reinterpret_cast<const char*>(begin + 1);
  for (int64_t i = 0; i < count; ++i) {
    int32_t number;
    std::memcpy(&number, numbers + i * kNarrowBytes, kNarrowBytes);
    owned[i] = number;
  }
  words = owned.get();
  size = count;
  return absl::OkStatus();
}

}  // namespace graph_opt
