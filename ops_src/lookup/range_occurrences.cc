#include "lookup/range_occurrences.h"

namespace graph_opt {

RangeOccurrences::RangeOccurrences(const std::vector<GradientTable>& tables,
                                   const std::vector<PooledGradient>& lookups,
                                   const std::vector<KeyRange>& ranges, Parallel* parallel)
    : tables_(tables), lookups_(lookups), wholes_(tables.size()) {
  constexpr int kFewRanges = 2;  // which read their table at the same time
  std::vector<int> num_ranges(tables.size(), 0);
  std::vector<int> many;
  for (const KeyRange& range : ranges) {
    if (++num_ranges[range.table] == kFewRanges + 1) many.push_back(range.table);
  }
  parallel->Run(static_cast<int64_t>(many.size()), [&](int64_t i) {
    Whole* const whole = &wholes_[many[i]];
    whole->is_read = true;
    whole->fault = whole->occurrences.ReadTable(many[i], tables_[many[i]], &lookups_);
  });
}

BagFault RangeOccurrences::Collect(const KeyRange& range, const RowKernels& kernels,
                                   SortedOccurrences* found) {
  const Whole& whole = wholes_[range.table];
  if (!whole.is_read) return found->Collect(range, tables_[range.table], &lookups_, kernels);
  if (whole.fault.kind == BagFault::kNone) found->TakeRange(range, whole.occurrences, kernels);
  return whole.fault;
}

}  // namespace graph_opt
