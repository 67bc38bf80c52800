#include "apply/group_apply.h"

#include <algorithm>

#include "lookup/range_occurrences.h"
#include "scratch/scratch_array.h"

namespace graph_opt {
namespace {

// Tells a dynamic table which rows, of keys from `first_key` on, have these occurrences.
void Announce(const Occurrences& found, int64_t first_key, DynamicTable* table) {
  constexpr int64_t kAtOnce = 512;
  int64_t rows[kAtOnce];
  int64_t count = 0;
  int64_t last = -1;
  for (int64_t i = 0; i < found.count; ++i) {
    const int64_t row = static_cast<int64_t>(found.sorted[i] >> found.payload_bits) - first_key;
    rows[count] = row;
    count += row != last;
    last = row;
    if (count < kAtOnce && i + 1 < found.count) continue;
    table->WillWrite(rows, count);
    count = 0;
  }
}

// One occurrence of each row that some have: the sum of its gradients, divided.
class DividedSums {
 public:
  DividedSums(const Occurrences& of, float divisor, const RowKernels& kernels)
      : rows_(of.count), sums_(of.count * of.dim), sorted_(of.count), divided_(of) {
    const int64_t num_rows = kernels.sum_runs(of, RunSums{0, rows_.data(), sums_.data()});
    float* const sums = sums_.data();
    for (int64_t i = 0; i < num_rows * of.dim; ++i) sums[i] /= divisor;
    for (int64_t i = 0; i < num_rows; ++i) {
      sorted_[i] = static_cast<uint64_t>(rows_[i]) << of.payload_bits | static_cast<uint64_t>(i);
    }
    divided_.sorted = sorted_.data();
    divided_.count = num_rows;
    divided_.gradients = sums;
    divided_.stride = of.dim;
    divided_.gradient_rows = nullptr;
    divided_.divisors = nullptr;
    divided_.scales = nullptr;
  }

  const Occurrences& occurrences() const { return divided_; }

 private:
  ScratchArray<int64_t> rows_;
  ScratchArray<float> sums_;
  ScratchArray<uint64_t> sorted_;
  Occurrences divided_;
};

void Update(const UpdatedTable::Shard& place, const Occurrences& occurrences,
            const UpdateRows& rows, const RowKernels& kernels) {
  if (place.deferred == nullptr) {
    kernels.update_runs(occurrences, rows);
  } else {
    UpdateRuns(place.deferred, occurrences, rows, kernels);
  }
}

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
    const Occurrences occurrences = found.Between(begin, end);
    if (place.dynamic != nullptr) Announce(occurrences, shards.first_key(shard), place.dynamic);
    if (updated.divisor == 1) {
      Update(place, occurrences, rows, kernels);
    } else {
      const DividedSums divided(occurrences, updated.divisor, kernels);
      Update(place, divided.occurrences(), rows, kernels);
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
  RangeOccurrences occurrences(plain, lookups, ranges, parallel);
  FirstFault first;
  parallel->Run(static_cast<int64_t>(ranges.size()), [&](int64_t i) {
    SortedOccurrences found;
    const UpdatedTable& updated = tables[ranges[i].table];
    const BagFault fault = occurrences.Collect(ranges[i], kernels, &found);
    if (fault.kind != BagFault::kNone) return first.Tell(fault);
    UpdateRange(optimizer, updated, ranges[i], found, kernels);
  });
  return first.fault();
}

}  // namespace graph_opt
