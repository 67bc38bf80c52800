#include "deferred/deferred_lookup.h"

#include <algorithm>
#include <memory>

#include "deferred/row_catch_up.h"

namespace graph_opt {
namespace {

constexpr int64_t kLeastTaskIds = 2048;  // some ten microseconds, where rows are current
constexpr int kTasksPerThread = 3;

// Some ids of one lookup: what one thread does at a time.
struct IdRange {
  int lookup;
  int64_t begin;
  int64_t end;
};

bool IsCurrent(const DeferredTable& table) {
  return std::all_of(table.shards.begin(), table.shards.end(), [&](const DeferredShard& shard) {
    if (shard.rows == nullptr) return true;
    const std::shared_ptr<const PassedSteps> passed = shard.rows->passed();
    if (passed == nullptr) return true;
    return table.needs == DeferredNeeds::kWeights && !passed->rule().changes;
  });
}

std::vector<IdRange> RangesOf(const std::vector<DeferredTable>& tables,
                              const std::vector<DeferredLookup>& lookups, int num_threads) {
  std::vector<bool> is_current;
  for (const DeferredTable& table : tables) is_current.push_back(IsCurrent(table));
  int64_t total = 0;
  for (const DeferredLookup& lookup : lookups) {
    if (!is_current[lookup.table]) total += lookup.bags.num_ids;
  }
  const int64_t step = std::max(kLeastTaskIds, total / (num_threads * kTasksPerThread) + 1);
  std::vector<IdRange> ranges;
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (is_current[lookups[i].table]) continue;
    const int64_t num_ids = lookups[i].bags.num_ids;
    int64_t begin = 0;
    do {
      const int64_t end = std::min(begin + step, num_ids);
      ranges.push_back(IdRange{static_cast<int>(i), begin, end});
      begin = end;
    } while (begin < num_ids);
  }
  return ranges;
}

// Gathers the rows of one shard, and catches them up some at a time.
class ShardRows {
 public:
  ShardRows(const DeferredShard& shard, std::shared_ptr<const PassedSteps> passed,
            const RowKernels& kernels, DeferredNeeds needs)
      : catch_up_(shard, std::move(passed), kernels, RowCatchUp::Rest::kAllowed, needs),
        num_rows_(shard.rows->num_rows()) {}

  void Add(int64_t row) {
    if (row >= num_rows_) return;
    rows_[count_++] = row;
    if (count_ == RowCatchUp::kRowsAtOnce) Finish();
  }

  void Finish() {
    catch_up_.CatchUp(rows_, count_);
    count_ = 0;
  }

 private:
  RowCatchUp catch_up_;
  const int64_t num_rows_;
  int64_t count_ = 0;
  int64_t rows_[RowCatchUp::kRowsAtOnce];
};

// Catches up rows of one table.
class TableRows {
 public:
  TableRows(const DeferredTable& table, const RowKernels& kernels) : partition_(table.partition) {
    for (const DeferredShard& shard : table.shards) {
      std::shared_ptr<const PassedSteps> passed;
      if (shard.rows != nullptr) passed = shard.rows->passed();
      shards_.emplace_back(passed == nullptr
                               ? nullptr
                               : new ShardRows(shard, std::move(passed), kernels, table.needs));
    }
  }

  template <typename Id>
  void AddAll(const Id* ids, int64_t count) {
    for (int64_t i = 0; i < count; ++i) Add(ids[i]);
  }

  void Add(int64_t id) {
    const int64_t key = partition_.KeyOf(id);
    if (key < 0) return;
    const int shard = shards_.size() == 1 ? 0 : partition_.ShardOf(key);
    if (shards_[shard] != nullptr) shards_[shard]->Add(key - partition_.first_key(shard));
  }

  void Finish() {
    for (const std::unique_ptr<ShardRows>& shard : shards_) {
      if (shard != nullptr) shard->Finish();
    }
  }

 private:
  const TableShards& partition_;
  std::vector<std::unique_ptr<ShardRows>> shards_;
};

}  // namespace

void CatchUp(const std::vector<DeferredTable>& tables, const std::vector<DeferredLookup>& lookups,
             const RowKernels& kernels, Parallel* parallel) {
  const std::vector<IdRange> ranges = RangesOf(tables, lookups, parallel->num_threads());
  parallel->Run(static_cast<int64_t>(ranges.size()), [&](int64_t i) {
    const IdRange& range = ranges[i];
    const DeferredLookup& lookup = lookups[range.lookup];
    const Bags& bags = lookup.bags;
    TableRows rows(tables[lookup.table], kernels);
    if (bags.wide_ids) {
      rows.AddAll(static_cast<const int64_t*>(bags.ids) + range.begin, range.end - range.begin);
    } else {
      rows.AddAll(static_cast<const int32_t*>(bags.ids) + range.begin, range.end - range.begin);
    }
    if (range.begin == 0) rows.Add(bags.default_id);
    rows.Finish();
  });
}

}  // namespace graph_opt
