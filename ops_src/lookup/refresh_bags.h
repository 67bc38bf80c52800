#ifndef GRAPH_OPT_LOOKUP_REFRESH_BAGS_H_
#define GRAPH_OPT_LOOKUP_REFRESH_BAGS_H_

#include <cstdint>
#include <vector>

#include "lookup/group_lookup.h"
#include "lookup/row_set.h"

namespace graph_opt {

// The rows of a table that have changed, for each of its shards.
struct ChangedRows {
  std::vector<RowSet> shards;

  bool none() const;
  bool all() const;
  bool MayHave(const TableShards& table, int64_t key) const {
    const int shard = shards.size() == 1 ? 0 : table.ShardOf(key);
    return shards[shard].MayHave(key - table.first_key(shard));
  }
};

// How many ids and bags of a lookup there were, how many of the ids have a row that may have
// changed, and how many bags such an id.
struct RefreshedLookup {
  int64_t ids = 0;
  int64_t changed_ids = 0;
  int64_t bags = 0;
  int64_t changed_bags = 0;
};

// Refreshes rows that were pooled before: pools those bags again of which a row may have
// changed since, perhaps some between them, and leaves all others as they are. Pooled rows are then
// those of GroupLookup, to the bit. They are undefined when a fault is returned.
BagFault RefreshBags(const std::vector<Table>& tables, const std::vector<ChangedRows>& changed,
                     const std::vector<Lookup>& lookups, const RowKernels& kernels,
                     Parallel* parallel, std::vector<RefreshedLookup>* refreshed);

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_REFRESH_BAGS_H_
