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

// How many ids were looked up, how many of them have a row that may have changed, and how many bags
// of each lookup such an id.
struct RefreshedIds {
  int64_t all = 0;
  int64_t changed = 0;
  std::vector<int64_t> changed_bags;
};

// Brings rows to date that were pooled before: pools those bags again of which a row may have
// changed since, perhaps some between them, and leaves all others as they are. Pooled rows are then
// those of GroupLookup, to the bit. They are undefined when a fault is returned.
BagFault RefreshBags(const std::vector<Table>& tables, const std::vector<ChangedRows>& changed,
                     const std::vector<Lookup>& lookups, const RowKernels& kernels,
                     Parallel* parallel, RefreshedIds* ids);

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_REFRESH_BAGS_H_
