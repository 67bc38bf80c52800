#ifndef GRAPH_OPT_KEYS_KEY_OWNERS_H_
#define GRAPH_OPT_KEYS_KEY_OWNERS_H_

#include <cstdint>

namespace graph_opt {

// Which shard of a table has which key, where every number is a key:
//
//   kMod      key % P, not negative
//   kMod1000  key % 1000 % P, not negative: as checkpoints of DeepRec order keys
//   kNone     the table has rows from 0 on, not keys
enum class KeyOwners { kNone, kMod, kMod1000 };

// DeepRec's checkpoints hold a table's keys in this many buckets, by remainder, so that a part of a
// table finds its own whatever the number of parts was when they were written.
constexpr int kKeyBuckets = 1000;

// The remainder of a key, not negative.
inline int64_t KeyRemainder(int64_t key, int64_t divisor) {
  const int64_t remainder = key % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

inline int OwnerOf(int64_t key, KeyOwners owners, int num_shards) {
  if (num_shards == 1) return 0;
  if (owners == KeyOwners::kMod1000) key = KeyRemainder(key, kKeyBuckets);
  return static_cast<int>(KeyRemainder(key, num_shards));
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KEYS_KEY_OWNERS_H_
