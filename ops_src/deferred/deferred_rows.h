// Rows whose updates without gradient are deferred.
//
// Some optimizers move all rows of a table in each step (TensorFlow's Adam: moments decay, and by
// them every row moves). What a step does to a row without gradient is known beforehand, so it is
// done later, for many steps at once, when the row is next needed: the row is caught up. That
// takes about as long as one update, however many steps the row missed.
//
// Memory does not grow with the number of steps. A row has four bytes, for the step that it is
// current as of (row_stamps.h). The sums of past steps (step_history.h) reach as far back as a row
// may need: each step also catches up some rows that missed many.
#ifndef GRAPH_OPT_DEFERRED_DEFERRED_ROWS_H_
#define GRAPH_OPT_DEFERRED_DEFERRED_ROWS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "deferred/row_stamps.h"
#include "deferred/step_history.h"
#include "lookup/parallel.h"
#include "optimizers/optimizer.h"
#include "rows/row_kernels.h"

namespace graph_opt {

class DeferredRows;

// Which rows a reader needs current: those that any step has changed, or only those that the
// optimizer has, where it does not read the average.
enum class DeferredNeeds { kAll, kWeights };

// Where a shard lies.
struct DeferredShard {
  DeferredRows* rows = nullptr;  // null: they are always current
  float* table = nullptr;        // [num_rows, dim], as the slots and the average
  float* slots[kMostSlots] = {};
  int64_t dim = 0;
  float* average = nullptr;  // null: none is kept
};

// The steps to which the rows of one table, or one shard, are current, and what later steps were.
// Each row changes only under a lock of its own, so that rows are caught up by any number of
// threads while an update runs. At first all rows are current, and nothing is known of their slots.
//
// A row may have an average of its weights over time, which moves a part of the way to them in
// steps of its own. All rows move then, so that is deferred as well, under any optimizer: where it
// leaves rows without gradient alone, only steps of the average count.
//
// Steps count once their update has ended. Until then rows are brought to the step before, and
// those that the update has done are left alone: no row goes without its gradient.
class DeferredRows {
 public:
  explicit DeferredRows(int64_t num_rows, uint32_t first_step = 0);
  DeferredRows(const DeferredRows&) = delete;
  DeferredRows& operator=(const DeferredRows&) = delete;

  int64_t num_rows() const { return stamps_.num_rows(); }

  // Whether there were steps of an average: what catches up rows has to know where it lies.
  bool is_averaged() const { return is_averaged_.load(std::memory_order_acquire); }

  // Whether all rows are current, so that there is nothing to catch up.
  bool is_settled() const { return is_settled_.load(std::memory_order_acquire); }

  // The steps that have ended, or null before the first.
  std::shared_ptr<const PassedSteps> passed() const;

  RowStamps* stamps() { return &stamps_; }

  // Rows whose slots are 0 rest, until somebody else may write to slots at any time.
  bool may_rest() const { return may_rest_.load(std::memory_order_acquire); }
  void EndRest() { may_rest_.store(false, std::memory_order_release); }

  // A step begins once no other is between these two. `place` is where the rows lie.
  void BeginStep(const DeferredShard& place, const IdleStep& step, const RowKernels& kernels,
                 Parallel* parallel);
  void EndStep(const DeferredShard& place, const IdleStep& step, int64_t run,
               const RowKernels& kernels, Parallel* parallel);

  // A step of the average, by (weights - average) * rate. Waits for a step that has begun.
  void StepAverage(const DeferredShard& place, float rate, int64_t run, const RowKernels& kernels,
                   Parallel* parallel);

  // What a row that is updated now will be stamped with.
  uint32_t StampOfUpdate() const;
  // Where the rows lie, between BeginStep and EndStep.
  const DeferredShard& place() const { return place_; }

  // Waits for a step that has begun.
  void CatchUpAll(const DeferredShard& place, int64_t run, const RowKernels& kernels,
                  Parallel* parallel);

 private:
  void Restart(const DeferredShard& place, const IdleStep& rule, bool averages,
               const RowKernels& kernels, Parallel* parallel);
  void Count(const DeferredShard& place, int64_t run, const RowKernels& kernels,
             Parallel* parallel);
  void Settle(const DeferredShard& place, int64_t run, const RowKernels& kernels,
              Parallel* parallel);
  void Sweep(const DeferredShard& place, const RowKernels& kernels);
  void Publish();

  RowStamps stamps_;
  std::mutex updating_;  // held by an update from its begin to its end
  DeferredShard place_;  // of that update
  std::unique_ptr<StepHistory> history_;
  uint32_t step_;
  int64_t next_swept_ = 0;
  std::atomic<bool> is_settled_{false};
  std::atomic<bool> may_rest_{true};
  std::atomic<bool> is_averaged_{false};
  int64_t settled_in_run_ = -1;
  mutable std::mutex publishing_;
  std::shared_ptr<const PassedSteps> passed_;
};

// Fails for optimizers that leave rows without gradient alone, unless an average is kept, and for
// hyperparameters with which what they do to them cannot be deferred.
absl::Status CheckDeferrable(const Optimizer& optimizer, bool averaged = false);

// The next step of some shards, from the lock of their updates to its end. While it lives, the rows
// with gradients are updated by UpdateRuns (GroupApply and ApplyUpdate call it); they are caught
// up there. Its end makes the step count for all other rows.
class DeferredUpdate {
 public:
  // Waits until no other update of the shards runs. The optimizer is deferrable. `run` is the
  // number of the session's run: where the same run had all rows caught up, this does so
  // again at the end.
  DeferredUpdate(const Optimizer& optimizer, std::vector<DeferredShard> shards, int64_t run,
                 const RowKernels& kernels, Parallel* parallel);
  ~DeferredUpdate();
  DeferredUpdate(const DeferredUpdate&) = delete;
  DeferredUpdate& operator=(const DeferredUpdate&) = delete;

 private:
  const IdleStep step_;
  std::vector<DeferredShard> shards_;
  const int64_t run_;
  const RowKernels& kernels_;
  Parallel* const parallel_;
};

// Catches up the rows of the occurrences and updates them, within a DeferredUpdate. Threads may
// do this at once for different rows.
void UpdateRuns(DeferredRows* deferred, const Occurrences& occurrences, const UpdateRows& rows,
                const RowKernels& kernels);

// A step of the averages of some shards, each by (weights - average) * rate, between steps of the
// optimizer. A rate that is not from 0 to 1 is not deferred. `run` is as for updates.
void StepAverages(const std::vector<DeferredShard>& shards, float rate, int64_t run,
                  const RowKernels& kernels, Parallel* parallel);

// Waits until no update of the shards runs, and catches up all their rows: at once where they
// are. Rows that rested no longer do, since whatever waits for this may write to their slots.
void CatchUpAll(const std::vector<DeferredShard>& shards, int64_t run, const RowKernels& kernels,
                Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_DEFERRED_ROWS_H_
