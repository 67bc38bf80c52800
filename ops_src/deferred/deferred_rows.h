// Rows whose updates without gradient are deferred.
//
// Some optimizers move all rows of a table in each step (TensorFlow's Adam: moments decay, and by
// them every row moves). What a step does to a row without gradient is known beforehand, so it is
// done later, for many steps at once, when the row is next needed: the row is brought to date.
#ifndef GRAPH_OPT_DEFERRED_DEFERRED_ROWS_H_
#define GRAPH_OPT_DEFERRED_DEFERRED_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lookup/bags.h"
#include "lookup/parallel.h"
#include "lookup/table_shards.h"
#include "optimizers/optimizer.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// The steps to which the rows of one table, or one shard, are current, and what later steps were.
// Each row changes only under a lock of its own, so that rows are brought to date by any number of
// threads while an update runs. At first all rows are current, and their slots unknown.
class DeferredRows {
 public:
  explicit DeferredRows(int64_t num_rows);
  ~DeferredRows();
  DeferredRows(const DeferredRows&) = delete;
  DeferredRows& operator=(const DeferredRows&) = delete;

  int64_t num_rows() const;
};

// Where a shard lies.
struct DeferredShard {
  DeferredRows* rows = nullptr;  // null: they are always current
  float* table = nullptr;        // [num_rows, dim], as the slots
  float* slots[kMostSlots] = {};
  int64_t dim = 0;
};

struct DeferredTable {
  TableShards partition;
  std::vector<DeferredShard> shards;
};

// The ids of one lookup.
struct DeferredLookup {
  Bags bags;
  int table;
};

// Fails for optimizers that leave rows without gradient alone, and for hyperparameters (an epsilon
// of 0) with which what they do to them is not known.
absl::Status CheckDeferrable(const Optimizer& optimizer);

// The next step of some shards, from the lock of their updates to its end. While it lives, the rows
// with gradients are updated by GroupApply or ApplyUpdate; they are brought to date there. Its end
// makes the step count for all other rows.
class DeferredUpdate {
 public:
  // Waits until no other update of the shards runs. The optimizer is deferrable. `run` is the
  // number of the session's run: where the same run had all rows brought to date, this does so
  // again at the end.
  DeferredUpdate(const Optimizer& optimizer, std::vector<DeferredShard> shards, int64_t run,
                 const RowKernels& kernels, Parallel* parallel);
  ~DeferredUpdate();
  DeferredUpdate(const DeferredUpdate&) = delete;
  DeferredUpdate& operator=(const DeferredUpdate&) = delete;
};

// Brings the rows that lookups name to the last step that has ended. Ids without a row are skipped.
void BringToDate(const std::vector<DeferredTable>& tables,
                 const std::vector<DeferredLookup>& lookups, const RowKernels& kernels,
                 Parallel* parallel);

// Waits until no update of the shards runs, and brings all their rows to date: at once where they
// are. What wrote to table or slots must not be an update alone: rows that were known to have slots
// of 0, and were left alone, are then looked at again.
void BringAllToDate(const std::vector<DeferredShard>& shards, int64_t run,
                    const RowKernels& kernels, Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_DEFERRED_ROWS_H_
