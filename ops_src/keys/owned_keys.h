#ifndef GRAPH_OPT_KEYS_OWNED_KEYS_H_
#define GRAPH_OPT_KEYS_OWNED_KEYS_H_

#include <cstdint>
#include <vector>

namespace graph_opt {

// Keys, each once, by their owners. Every number is a key; that of rank r are those whose
// non-negative remainder by the number of ranks is r.
struct OwnedKeys {
  std::vector<int64_t> keys;    // of rank 0, 1, ..., each rank's in the order of their occurrences
  std::vector<int32_t> splits;  // how many keys each rank has
};

// Also writes the place among `keys` of each of the `count` occurrences.
OwnedKeys ByOwner(const int64_t* occurrences, int64_t count, int num_ranks, int64_t* places);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KEYS_OWNED_KEYS_H_
