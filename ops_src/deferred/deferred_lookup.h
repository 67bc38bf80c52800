#ifndef GRAPH_OPT_DEFERRED_DEFERRED_LOOKUP_H_
#define GRAPH_OPT_DEFERRED_DEFERRED_LOOKUP_H_

#include <cstdint>
#include <vector>

#include "deferred/deferred_rows.h"
#include "lookup/bags.h"
#include "lookup/parallel.h"
#include "lookup/table_shards.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// An embedding table and where its shards lie.
struct DeferredTable {
  TableShards partition;
  std::vector<DeferredShard> shards;
  DeferredNeeds needs = DeferredNeeds::kAll;
};

// The ids of one lookup. Of its bags, only ids and default id count.
struct DeferredLookup {
  Bags bags;
  int table;
};

// Catches up the rows that lookups name to the last step that has ended, and default rows, too. Ids
// without a row are skipped.
void CatchUp(const std::vector<DeferredTable>& tables, const std::vector<DeferredLookup>& lookups,
             const RowKernels& kernels, Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_DEFERRED_LOOKUP_H_
