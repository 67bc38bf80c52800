#include "lookup/row_log.h"

#include <algorithm>
#include <utility>

namespace graph_opt {
namespace {

template <typename Id>
void AddIds(const TableShards& shards, const Bags& bags, std::vector<RowSet>* sets) {
  const Id* const ids = static_cast<const Id*>(bags.ids);
  const auto add = [&](int64_t id) {
    const int64_t key = shards.KeyOf(id);
    if (key < 0) return;
    const int shard = sets->size() == 1 ? 0 : shards.ShardOf(key);
    (*sets)[shard].Add(key - shards.first_key(shard));
  };
  for (int64_t k = 0; k < bags.num_ids; ++k) add(ids[k]);
  add(bags.default_id);
  add(bags.filled_id);
}

}  // namespace

int64_t RowLog::TakePosition() {
  std::lock_guard<std::mutex> lock(mutex_);
  last_taken_ = position_;
  return position_;
}

bool RowLog::IsAwaited(int64_t kept) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_taken_ >= 0 && position_ - last_taken_ < kept;
}

void RowLog::Append(RowSet rows, int64_t kept) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++position_;
  last_.push_back(std::move(rows));
  while (static_cast<int64_t>(last_.size()) > kept) last_.pop_front();
}

RowSet RowLog::Since(int64_t position, int64_t may_miss) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t count = position_ - position;
  const int64_t kept = static_cast<int64_t>(last_.size());
  if (position < 0 || count < 0 || count > kept) return RowSet::OfAll();
  const auto first = last_.end() - count;
  if (std::any_of(first, last_.end(), [](const RowSet& rows) { return rows.all(); })) {
    return RowSet::OfAll();
  }
  if (count <= may_miss) return RowSet();
  std::vector<RowSet> more_than(may_miss +
                                1);  // rows that more than 0, 1, ... updates have written
  for (auto update = first; update != last_.end(); ++update) {
    for (int64_t n = may_miss; n > 0; --n) {
      if (more_than[n - 1].none()) continue;
      RowSet again = more_than[n - 1];
      again.Keep(*update);
      more_than[n].Add(again);
    }
    more_than[0].Add(*update);
  }
  return more_than[may_miss];
}

std::vector<RowSet> RowsOf(const TableShards& shards, const std::vector<const Bags*>& lookups) {
  int64_t num_ids = 0;
  for (const Bags* bags : lookups) num_ids += bags->num_ids + 2;
  std::vector<RowSet> sets;
  for (int s = 0; s < shards.num_shards(); ++s) {
    sets.emplace_back(num_ids, shards.end_key(s) - shards.first_key(s));
  }
  for (const Bags* bags : lookups) {
    if (bags->wide_ids) {
      AddIds<int64_t>(shards, *bags, &sets);
    } else {
      AddIds<int32_t>(shards, *bags, &sets);
    }
  }
  return sets;
}

}  // namespace graph_opt
