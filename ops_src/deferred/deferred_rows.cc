#include "deferred/deferred_rows.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deferred/row_catch_up.h"

namespace graph_opt {
namespace {

// How many steps a row may miss before it is caught up all the same. In each step some rows
// are looked at, so many that all have their turn within half that time, and those that missed a
// quarter of it are caught up: no row ever misses more than three quarters.
int64_t MostMissed(int64_t num_rows) {
  int64_t most = 1024;
  while (most < num_rows / 8 && most < 65536) most *= 2;
  return most;
}

// Catches up rows [begin, end) that missed more than `least` steps, and rows that rest, too, if
// that has to end.
void CatchUpRange(const DeferredShard& shard, int64_t begin, int64_t end, int64_t least,
                  RowCatchUp* catch_up, const PassedSteps& passed) {
  constexpr int64_t kMost = RowCatchUp::kRowsAtOnce;
  int64_t rows[kMost];
  int64_t count = 0;
  for (int64_t row = begin; row < end; ++row) {
    const RowStamps::Stamp stamp = shard.rows->stamps()->Of(row);
    if (stamp.IsBehind(passed.step()) && stamp.Age(passed.step()) <= least) continue;
    rows[count++] = row;
    if (count < kMost) continue;
    catch_up->CatchUp(rows, count);
    count = 0;
  }
  catch_up->CatchUp(rows, count);
}

void CatchUpAllRows(const DeferredShard& shard, const std::shared_ptr<const PassedSteps>& passed,
                    const RowKernels& kernels, Parallel* parallel) {
  constexpr int64_t kRowsOfTask = 16384;
  const int64_t num_rows = shard.rows->num_rows();
  parallel->Run((num_rows + kRowsOfTask - 1) / kRowsOfTask, [&](int64_t i) {
    RowCatchUp catch_up(shard, passed, kernels, RowCatchUp::Rest::kEnded);
    const int64_t begin = i * kRowsOfTask;
    CatchUpRange(shard, begin, std::min(begin + kRowsOfTask, num_rows), 0, &catch_up, *passed);
  });
}

// A step of the average over all rows.
void AverageAllRows(const DeferredShard& shard, float rate, Parallel* parallel) {
  constexpr int64_t kFloatsOfTask = 1 << 18;
  const int64_t size = shard.rows->num_rows() * shard.dim;
  parallel->Run((size + kFloatsOfTask - 1) / kFloatsOfTask, [&](int64_t task) {
    const int64_t end = std::min((task + 1) * kFloatsOfTask, size);
    for (int64_t i = task * kFloatsOfTask; i < end; ++i) {
      shard.average[i] -= (shard.average[i] - shard.table[i]) * rate;
    }
  });
}

// What a step of the optimizer does to rows without gradient; no slot counts if it is nothing.
IdleStep RuleOf(const Optimizer& optimizer) {
  const IdleStep step = IdleStepOf(optimizer);
  return step.changes ? step : IdleStep();
}

// Those of the shards that are deferred, each once, in the order in which all threads lock them.
std::vector<DeferredShard> InOrder(std::vector<DeferredShard> shards) {
  const auto before = [](const DeferredShard& a, const DeferredShard& b) {
    return std::less<DeferredRows*>()(a.rows, b.rows);
  };
  const auto same = [](const DeferredShard& a, const DeferredShard& b) { return a.rows == b.rows; };
  const auto is_current = [](const DeferredShard& shard) { return shard.rows == nullptr; };
  shards.erase(std::remove_if(shards.begin(), shards.end(), is_current), shards.end());
  std::sort(shards.begin(), shards.end(), before);
  shards.erase(std::unique(shards.begin(), shards.end(), same), shards.end());
  return shards;
}

}  // namespace

DeferredRows::DeferredRows(int64_t num_rows, uint32_t first_step)
    : stamps_(num_rows, first_step), step_(first_step) {}

std::shared_ptr<const PassedSteps> DeferredRows::passed() const {
  std::lock_guard<std::mutex> lock(publishing_);
  return passed_;
}

void DeferredRows::BeginStep(const DeferredShard& place, const IdleStep& step,
                             const RowKernels& kernels, Parallel* parallel) {
  updating_.lock();
  place_ = place;
  if (history_ != nullptr && history_->rule().HasRuleOf(step)) return;
  Restart(place, step, is_averaged(), kernels, parallel);
}

// Forgets what the steps were, once all rows are current.
void DeferredRows::Restart(const DeferredShard& place, const IdleStep& rule, bool averages,
                           const RowKernels& kernels, Parallel* parallel) {
  if (history_ != nullptr) CatchUpAllRows(place, passed_, kernels, parallel);
  history_.reset(new StepHistory(rule, MostMissed(num_rows()), step_, averages));
  Publish();
}

void DeferredRows::EndStep(const DeferredShard& place, const IdleStep& step, int64_t run,
                           const RowKernels& kernels, Parallel* parallel) {
  if (step.changes) {
    history_->Add(step);
    Count(place, run, kernels, parallel);
  }
  updating_.unlock();
}

void DeferredRows::StepAverage(const DeferredShard& place, float rate, int64_t run,
                               const RowKernels& kernels, Parallel* parallel) {
  std::lock_guard<std::mutex> lock(updating_);
  if (!(rate >= 0 && rate <= 1)) {
    Settle(place, settled_in_run_, kernels, parallel);
    AverageAllRows(place, rate, parallel);
    return;
  }
  if (!is_averaged()) {
    is_averaged_.store(true, std::memory_order_release);
    Restart(place, history_ == nullptr ? IdleStep() : history_->rule(), true, kernels, parallel);
  }
  history_->AddAverage(rate);
  Count(place, run, kernels, parallel);
}

// Makes a step count that was added to the history.
void DeferredRows::Count(const DeferredShard& place, int64_t run, const RowKernels& kernels,
                         Parallel* parallel) {
  step_ = history_->passed()->step();
  is_settled_.store(false, std::memory_order_release);
  Publish();
  Sweep(place, kernels);
  if (settled_in_run_ == run) Settle(place, run, kernels, parallel);
}

uint32_t DeferredRows::StampOfUpdate() const {
  return history_->rule().changes ? step_ + 1 : step_;
}

void DeferredRows::CatchUpAll(const DeferredShard& place, int64_t run, const RowKernels& kernels,
                              Parallel* parallel) {
  std::lock_guard<std::mutex> lock(updating_);
  Settle(place, run, kernels, parallel);
}

void DeferredRows::Settle(const DeferredShard& place, int64_t run, const RowKernels& kernels,
                          Parallel* parallel) {
  settled_in_run_ = run;
  if (is_settled()) return;
  if (passed_ != nullptr) CatchUpAllRows(place, passed_, kernels, parallel);
  is_settled_.store(true, std::memory_order_release);
}

void DeferredRows::Sweep(const DeferredShard& place, const RowKernels& kernels) {
  const int64_t most_missed = MostMissed(num_rows());
  int64_t left = std::min(num_rows(), (2 * num_rows() + most_missed - 1) / most_missed);
  RowCatchUp catch_up(place, passed_, kernels);
  while (left > 0) {
    const int64_t end = std::min(next_swept_ + left, num_rows());
    CatchUpRange(place, next_swept_, end, most_missed / 4, &catch_up, *passed_);
    left -= end - next_swept_;
    next_swept_ = end == num_rows() ? 0 : end;
  }
}

void DeferredRows::Publish() {
  std::lock_guard<std::mutex> lock(publishing_);
  passed_ = history_->passed();
}

absl::Status CheckDeferrable(const Optimizer& optimizer, bool averaged) {
  const IdleStep step = IdleStepOf(optimizer);
  if (!step.changes) {
    if (averaged) return absl::OkStatus();
    return absl::InvalidArgumentError("the optimizer leaves rows without gradient as they are");
  }
  if (averaged && step.mixes) {
    return absl::InvalidArgumentError(
        "averages are not known of weights that mix with a slot where they have no gradient");
  }
  for (int slot = 0; slot < step.num_slots; ++slot) {
    if (step.decays[slot] >= 0 && step.decays[slot] <= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a slot is multiplied by ", step.decays[slot], " in each step; need 0 to 1"));
  }
  if (step.root < 0 || step.epsilon > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("epsilon is ", step.epsilon, "; need more than 0"));
}

DeferredUpdate::DeferredUpdate(const Optimizer& optimizer, std::vector<DeferredShard> shards,
                               int64_t run, const RowKernels& kernels, Parallel* parallel)
    : step_(RuleOf(optimizer)),
      shards_(InOrder(std::move(shards))),
      run_(run),
      kernels_(kernels),
      parallel_(parallel) {
  for (const DeferredShard& shard : shards_) {
    shard.rows->BeginStep(shard, step_, kernels_, parallel_);
  }
}

DeferredUpdate::~DeferredUpdate() {
  for (const DeferredShard& shard : shards_) {
    shard.rows->EndStep(shard, step_, run_, kernels_, parallel_);
  }
}

void UpdateRuns(DeferredRows* deferred, const Occurrences& occurrences, const UpdateRows& rows,
                const RowKernels& kernels) {
  RowCatchUp catch_up(deferred->place(), deferred->passed(), kernels);
  const uint32_t stamp = deferred->StampOfUpdate();
  Occurrences left = occurrences;
  while (left.count > 0) {
    int64_t of_runs[RowCatchUp::kRowsAtOnce];
    int64_t num_runs = 0;
    int64_t end = 0;
    for (; end < left.count; ++end) {
      const int64_t row =
          static_cast<int64_t>((left.sorted[end] >> left.payload_bits) - rows.first_key);
      if (num_runs > 0 && of_runs[num_runs - 1] == row) continue;
      if (num_runs == RowCatchUp::kRowsAtOnce) break;
      of_runs[num_runs++] = row;
    }
    catch_up.LockAndCatchUp(of_runs, num_runs);
    Occurrences some = left;
    some.count = end;
    kernels.update_runs(some, rows);
    RowStamps* const stamps = deferred->stamps();
    for (int64_t i = 0; i < num_runs; ++i) stamps->Unlock(of_runs[i], stamp);
    left.sorted += end;
    left.count -= end;
  }
}

void StepAverages(const std::vector<DeferredShard>& shards, float rate, int64_t run,
                  const RowKernels& kernels, Parallel* parallel) {
  for (const DeferredShard& shard : InOrder(shards)) {
    shard.rows->StepAverage(shard, rate, run, kernels, parallel);
  }
}

void CatchUpAll(const std::vector<DeferredShard>& shards, int64_t run, const RowKernels& kernels,
                Parallel* parallel) {
  for (const DeferredShard& shard : InOrder(shards)) {
    shard.rows->CatchUpAll(shard, run, kernels, parallel);
  }
}

}  // namespace graph_opt
