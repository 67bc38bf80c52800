#ifndef GRAPH_OPT_KEYS_KEY_INDEX_H_
#define GRAPH_OPT_KEYS_KEY_INDEX_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace graph_opt {

// The rows 0, 1, ... of the keys of a vocabulary, in the order in which they come. Every number is
// a key. Not thread-safe.
class KeyIndex {
 public:
  static constexpr int64_t kAbsent = -1;

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }

  // Forgets all keys and takes these, the key of row 0 first. Fails, and is empty then, if one
  // comes twice.
  absl::Status Assign(const int64_t* keys, int64_t count);

  // Writes the row of each key, or kAbsent.
  void Find(const int64_t* keys, int64_t count, int64_t* rows) const;

  // Writes the row of each key. Those that have none get the next rows, as long as there are fewer
  // than `capacity`, and are written to new_keys[size()] and on, in the order of their rows; the
  // others get kAbsent.
  void FindOrAdd(const int64_t* keys, int64_t count, int64_t capacity, int64_t* rows,
                 int64_t* new_keys);

 private:
  absl::flat_hash_map<int64_t, int64_t> rows_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KEYS_KEY_INDEX_H_
