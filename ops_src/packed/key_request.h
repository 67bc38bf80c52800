#ifndef GRAPH_OPT_PACKED_KEY_REQUEST_H_
#define GRAPH_OPT_PACKED_KEY_REQUEST_H_

#include <cstdint>

#include "absl/status/status.h"

namespace graph_opt {

// What is asked of a shard that goes by key, in words:
//
//   how      number of keys << 16 | what becomes of new ones << 8 | bytes of each count
//   keys     each once
//   counts   how often each was named, in 1, 2 or 4 bytes, filled up; none: once
constexpr int64_t kKeyHeaderWords = 1;

// What stands for the number of lookups in the header of such a request, and of an update.
constexpr int64_t kByKey = -1;

// What becomes of keys without a row.
enum class NewKeys {
  kRead,    // they read what they would begin with
  kInsert,  // they get rows if the table's filter lets them; occurrences are counted
  kAdmit,   // they get rows; nothing is counted
};

struct RequestedKeys {
  const int64_t* keys = nullptr;
  int64_t count = 0;
  NewKeys new_keys = NewKeys::kRead;
  int count_bytes = 0;
  const int64_t* counts = nullptr;  // in count_bytes each

  // How often each was named.
  void ReadCounts(int64_t* counts_of_keys) const;
};

// `most_count` is the greatest count.
int64_t KeyRequestWords(int64_t count, int32_t most_count);

// Writes what goes before the keys, which are at words + kKeyHeaderWords.
void WriteKeyHeader(int64_t count, NewKeys new_keys, int32_t most_count, int64_t* words);

// Writes what goes behind them.
void WriteKeyCounts(const int32_t* counts, int64_t count, int32_t most_count, int64_t* words);

// Finds keys in a request of `size` words. Fails where it is malformed.
absl::Status FindRequestedKeys(const int64_t* words, int64_t size, RequestedKeys* requested);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_KEY_REQUEST_H_
