#ifndef GRAPH_OPT_LOOKUP_RANGE_OCCURRENCES_H_
#define GRAPH_OPT_LOOKUP_RANGE_OCCURRENCES_H_

#include <vector>

#include "lookup/bag_order.h"
#include "lookup/occurrences.h"
#include "lookup/parallel.h"

namespace graph_opt {

// The occurrences of key ranges. A table that is split into many of them is read once, rather than
// by each.
class RangeOccurrences {
 public:
  // Reads those tables. Tables and lookups must outlive this.
  RangeOccurrences(const std::vector<GradientTable>& tables,
                   const std::vector<PooledGradient>& lookups, const std::vector<KeyRange>& ranges,
                   Parallel* parallel);
  RangeOccurrences(const RangeOccurrences&) = delete;
  RangeOccurrences& operator=(const RangeOccurrences&) = delete;

  // Writes those of a range, which refer to this. May be called from any thread.
  BagFault Collect(const KeyRange& range, const RowKernels& kernels, SortedOccurrences* found);

 private:
  // Of a table that is read once.
  struct Whole {
    bool is_read = false;
    BagFault fault;
    SortedOccurrences occurrences;
  };

  const std::vector<GradientTable>& tables_;
  InBagOrder<PooledGradient> lookups_;
  std::vector<Whole> wholes_;  // by table
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_RANGE_OCCURRENCES_H_
