#include "apply/group_apply.h"

#include <algorithm>

namespace graph_opt {
namespace {

void UpdateRange(const Optimizer& optimizer, const UpdatedTable& updated, const KeyRange& range,
                 const SortedOccurrences& found, const RowKernels& kernels) {
  const TableShards& shards = updated.table.shards;
  for (int shard = 0; shard < shards.num_shards(); ++shard) {
    const UpdatedTable::Shard& place = updated.shards[shard];
    const int64_t begin = std::max(range.begin, shards.first_key(shard) + place.first_row);
    const int64_t end = std::min(range.end, shards.end_key(shard));
    if (begin >= end) continue;
    UpdateRows rows;
    rows.optimizer = place.optimizer == nullptr ? optimizer : *place.optimizer;
    rows.first_key = static_cast<uint64_t>(shards.first_key(shard));
    rows.stride = place.stride == 0 ? updated.table.dim : place.stride;
    rows.table = place.rows;
    std::copy(place.slots, place.slots + kMostSlots, rows.slots);
    if (place.deferred == nullptr) {
      kernels.update_runs(found.Between(begin, end), rows);
    } else {
      UpdateRuns(place.deferred, found.Between(begin, end), rows, kernels);
    }
  }
}

}  // namespace

BagFault GroupApply(const Optimizer& optimizer, const std::vector<UpdatedTable>& tables,
                    const std::vector<PooledGradient>& lookups, const RowKernels& kernels,
                    Parallel* parallel) {
  ScratchPool::OfProcess()->BeginCall();
  std::vector<GradientTable> plain;
  for (const UpdatedTable& table : tables) plain.push_back(table.table);
  const std::vector<KeyRange> ranges = KeyRangesOf(plain, lookups, parallel->num_threads());
  InBagOrder<PooledGradient> in_bag_order(lookups);
  FirstFault first;
  parallel->Run(static_cast<int64_t>(ranges.size()), [&](int64_t i) {
    SortedOccurrences found;
    const UpdatedTable& updated = tables[ranges[i].table];
    const BagFault fault = found.Collect(ranges[i], updated.table, &in_bag_order, kernels);
    if (fault.kind != BagFault::kNone) return first.Tell(fault);
    UpdateRange(optimizer, updated, ranges[i], found, kernels);
  });
  return first.fault();
}

}  // namespace graph_opt
