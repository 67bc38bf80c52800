#ifndef GRAPH_OPT_PACKED_NUMBERED_KEYS_H_
#define GRAPH_OPT_PACKED_NUMBERED_KEYS_H_

#include <cstdint>
#include <vector>

#include "packed/inverse_places.h"
#include "packed/unique_keys.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// Gradients of lookups by key as gradients of lookups by row, in tables that have the keys which
// the lookups name as their rows: so that GroupGradient sums them.
class NumberedKeys {
 public:
  NumberedKeys(const std::vector<KeyTable>& tables, const std::vector<PooledGradient>& lookups,
               Parallel* parallel);

  BagFault Find();

  // Replaces the shards of tables that go by key, and the ids of their lookups.
  void Number(std::vector<GradientTable>* tables, std::vector<PooledGradient>* lookups) const;

  // Replaces rows of a shard by their keys.
  void ToKeys(int table, int shard, int64_t* rows, int64_t count) const;

 private:
  const std::vector<KeyTable>& tables_;
  const std::vector<PooledGradient>& lookups_;
  const InversePlaces places_;
  UniqueKeys unique_;
  std::vector<std::vector<ScratchArray<int64_t>>> keys_;  // of each table and shard
  ScratchArray<int32_t> inverse_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_NUMBERED_KEYS_H_
