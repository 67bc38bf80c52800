#ifndef GRAPH_OPT_KEYS_KEY_HASH_H_
#define GRAPH_OPT_KEYS_KEY_HASH_H_

#include <stdint.h>

namespace graph_opt {

// A permutation of all 64-bit numbers whose every output bit depends on every input bit: the
// finalizer of SplitMix64. The same on all machines and in all runs, unlike Abseil's hash, so what
// is drawn from it can be reproduced.
static inline uint64_t MixKey(uint64_t key) {
  key += 0x9e3779b97f4a7c15;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KEYS_KEY_HASH_H_
