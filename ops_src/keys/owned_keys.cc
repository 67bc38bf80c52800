#include "keys/owned_keys.h"

#include "absl/container/flat_hash_map.h"
#include "keys/key_owners.h"

namespace graph_opt {
OwnedKeys ByOwner(const int64_t* occurrences, int64_t count, int num_ranks, int64_t* places) {
  absl::flat_hash_map<int64_t, int64_t> number_of;
  std::vector<int64_t> unique;
  std::vector<int> owners;
  OwnedKeys owned;
  owned.splits.assign(num_ranks, 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto added = number_of.emplace(occurrences[i], static_cast<int64_t>(unique.size()));
    places[i] = added.first->second;
    if (!added.second) continue;
    unique.push_back(occurrences[i]);
    owners.push_back(OwnerOf(occurrences[i], KeyOwners::kMod, num_ranks));
    ++owned.splits[owners.back()];
  }
  std::vector<int64_t> next(num_ranks, 0);
  for (int rank = 1; rank < num_ranks; ++rank) {
    next[rank] = next[rank - 1] + owned.splits[rank - 1];
  }
  owned.keys.resize(unique.size());
  std::vector<int64_t> place_of(unique.size());
  for (size_t i = 0; i < unique.size(); ++i) {
    place_of[i] = next[owners[i]]++;
    owned.keys[place_of[i]] = unique[i];
  }
  for (int64_t i = 0; i < count; ++i) places[i] = place_of[places[i]];
  return owned;
}

}  // namespace graph_opt
