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

inline int OwnerOf(int64_t key, KeyOwners owners, int num_shards) {
  if (num_shards == 1) return 0;
  if (owners == KeyOwners::kMod1000) {
    key %= 1000;
    if (key < 0) key += 1000;
  }
  const int64_t remainder = key % num_shards;
  return static_cast<int>(remainder < 0 ? remainder + num_shards : remainder);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KEYS_KEY_OWNERS_H_
