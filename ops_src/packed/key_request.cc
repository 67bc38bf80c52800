#include "packed/key_request.h"

#include <algorithm>

#include "packed/narrow_numbers.h"

namespace graph_opt {
namespace {

int BytesOfCounts(int32_t most_count) { return most_count <= 1 ? 0 : BytesFor(most_count); }

}  // namespace

void RequestedKeys::ReadCounts(int64_t* counts_of_keys) const {
  if (count_bytes == 0) {
    std::fill_n(counts_of_keys, count, int64_t{1});
  } else {
    ReadNumbers(counts, count, count_bytes, counts_of_keys);
  }
}

int64_t KeyRequestWords(int64_t count, int32_t most_count) {
  return kKeyHeaderWords + count + WordsOf(count, BytesOfCounts(most_count));
}

void WriteKeyHeader(int64_t count, NewKeys new_keys, int32_t most_count, int64_t* words) {
  *words = count << 16 | static_cast<int64_t>(new_keys) << 8 | BytesOfCounts(most_count);
}

void WriteKeyCounts(const int32_t* counts, int64_t count, int32_t most_count, int64_t* words) {
  const int bytes = BytesOfCounts(most_count);
  if (bytes > 0) WriteNumbers(counts, count, bytes, words + kKeyHeaderWords + count);
}

absl::Status FindRequestedKeys(const int64_t* words, int64_t size, RequestedKeys* requested) {
  const int64_t how = size < kKeyHeaderWords ? -1 : *words;
  const int64_t count = how >> 16;
  const int bytes = static_cast<int>(how & 0xff);
  const int64_t new_keys = how >> 8 & 0xff;
  const int64_t most = size - kKeyHeaderWords;
  if (how < 0 || count > most || new_keys > static_cast<int64_t>(NewKeys::kAdmit) ||
      (bytes != 0 && !IsWidth(bytes)) || count + WordsOf(count, bytes) != most) {
    return absl::InvalidArgumentError("malformed keys");
  }
  requested->keys = words + kKeyHeaderWords;
  requested->count = count;
  requested->new_keys = static_cast<NewKeys>(new_keys);
  requested->count_bytes = bytes;
  requested->counts = requested->keys + count;
  return absl::OkStatus();
}

}  // namespace graph_opt
