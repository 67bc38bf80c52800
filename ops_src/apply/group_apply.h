#ifndef GRAPH_OPT_APPLY_GROUP_APPLY_H_
#define GRAPH_OPT_APPLY_GROUP_APPLY_H_

#include <vector>

#include "deferred/deferred_rows.h"
#include "dynamic/dynamic_table.h"
#include "lookup/group_lookup.h"
#include "lookup/occurrences.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// A table of floats with its optimizer's slots, each in the table's shards.
struct UpdatedTable {
  GradientTable table;
  struct Shard {
    float* rows;
    float* slots[kMostSlots];          // those the optimizer has
    DeferredRows* deferred = nullptr;  // within a DeferredUpdate of it; null: all are current
    int64_t stride = 0;                // floats from row to row, of slots, too; 0: rows are dense
    const Optimizer* optimizer = nullptr;  // with hyperparameters of its own; null: those of all
    int64_t first_row = 0;                 // rows before it are never updated
    DynamicTable* dynamic = nullptr;       // is told which rows are about to be written
  };
  std::vector<Shard> shards;
  float divisor = 1;  // of the sums; other than 1 only where all bags have one id
};

// Updates, by the optimizer, the rows that the lookups name, and no others: each once, with the sum
// of its gradients in the order of lookups and ids. When a fault is returned, tables without one
// may be updated already.
BagFault GroupApply(const Optimizer& optimizer, const std::vector<UpdatedTable>& tables,
                    const std::vector<PooledGradient>& lookups, const RowKernels& kernels,
                    Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_APPLY_GROUP_APPLY_H_
