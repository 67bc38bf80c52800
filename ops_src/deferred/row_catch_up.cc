#include "deferred/row_catch_up.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

namespace graph_opt {
namespace {

constexpr size_t kMostSpans = 4096;  // that are kept for further rows

}  // namespace

RowCatchUp::RowCatchUp(const DeferredShard& shard, std::shared_ptr<const PassedSteps> passed,
                       const RowKernels& kernels, Rest rest, DeferredNeeds needs)
    : shard_(shard),
      stamps_(shard.rows->stamps()),
      passed_(std::move(passed)),
      kernels_(kernels),
      rest_(rest),
      needed_(needs == DeferredNeeds::kAll ? passed_->step() : passed_->last_update()) {}

void RowCatchUp::CatchUp(const int64_t* rows, int64_t count) {
  int64_t waiting[kRowsAtOnce];
  for (int64_t i = 0; i < count; ++i) stamps_->Prefetch(rows[i]);
  while (count > 0) {
    int64_t num_waiting = 0;
    for (int64_t i = 0; i < count; ++i) {
      const RowStamps::Stamp stamp = stamps_->Of(rows[i]);
      if (!IsWanted(stamp)) continue;
      if (!stamp.is_locked() && stamps_->TryLock(rows[i], stamp)) {
        Add(rows[i], stamp);
      } else {
        waiting[num_waiting++] = rows[i];
      }
    }
    if (rows_.empty() && num_waiting > 0) std::this_thread::yield();
    CatchUpAdded();
    // Asked while the rows are locked, as whoever ends their rest then visits each of them.
    const IdleStep& rule = passed_->rule();
    const bool may_rest =
        rest_ == Rest::kAllowed && !rule.keeps && !rule.mixes && shard_.rows->may_rest();
    for (const IdleRow& row : rows_) {
      if (row.may_rest && may_rest) {
        stamps_->UnlockResting(row.row);
      } else {
        stamps_->Unlock(row.row, passed_->step());
      }
    }
    rows_.clear();
    rows = waiting;
    count = num_waiting;
  }
}

// Whether a row may have to be caught up.
bool RowCatchUp::IsWanted(RowStamps::Stamp stamp) const {
  if (stamp.is_resting()) return rest_ == Rest::kEnded;
  return stamp.is_locked() || stamp.IsBehind(needed_);
}

void RowCatchUp::LockAndCatchUp(const int64_t* rows, int64_t count) {
  for (int64_t i = 0; i < count; ++i) stamps_->Prefetch(rows[i]);
  for (int64_t i = 0; i < count; ++i) {
    const RowStamps::Stamp stamp = stamps_->Lock(rows[i]);
    if (stamp.IsBehind(passed_->step())) Add(rows[i], stamp);
  }
  CatchUpAdded();
  rows_.clear();
}

void RowCatchUp::Add(int64_t row, RowStamps::Stamp stamp) {
  if (stamp.is_resting()) {
    stamps_->Unlock(row, passed_->step());
    return;
  }
  rows_.push_back(RowOfAge(stamp.Age(passed_->step())));
  rows_.back().row = row;
}

IdleRow RowCatchUp::RowOfAge(int64_t age) {
  const bool may_be_known = age < kKnownAges;
  if (may_be_known && known_places_[age] != 0) return known_[known_places_[age] - 1];
  IdleRow described = {};
  passed_->Describe(age, &described, &spans_);
  if (may_be_known) {
    known_.push_back(described);
    known_places_[age] = static_cast<uint16_t>(known_.size());
  }
  return described;
}

void RowCatchUp::CatchUpAdded() {
  if (rows_.empty()) return;
  const IdleStep& rule = passed_->rule();
  IdleRows all;
  all.table = shard_.table;
  std::copy(shard_.slots, shard_.slots + kMostSlots, all.slots);
  all.num_slots = rule.num_slots;
  all.average = passed_->averages() ? shard_.average : nullptr;
  all.dim = shard_.dim;
  all.moment = rule.moment;
  all.root = rule.root;
  all.are_mixed = rule.mixes;
  all.epsilon = static_cast<float>(rule.epsilon);
  all.num_sums = passed_->num_sums();
  all.spans = spans_.data();
  all.rows = rows_.data();
  all.count = static_cast<int64_t>(rows_.size());
  kernels_.catch_up_rows(all);
  if (spans_.size() < kMostSpans) return;
  spans_.clear();
  known_.clear();
  std::fill(known_places_, known_places_ + kKnownAges, uint16_t{0});
}

}  // namespace graph_opt
