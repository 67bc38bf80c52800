#ifndef GRAPH_OPT_PACKED_INVERSE_PLACES_H_
#define GRAPH_OPT_PACKED_INVERSE_PLACES_H_

#include <cstdint>
#include <vector>

#include "lookup/occurrences.h"

namespace graph_opt {

// Where the packed numbers of rows are that lookups name (unique_ids.h): one for each id of each
// lookup, then one for the default row, or the filled row, of each.
class InversePlaces {
 public:
  explicit InversePlaces(const std::vector<PooledGradient>& lookups) {
    for (const PooledGradient& lookup : lookups) {
      first_.push_back(num_ids_);
      num_ids_ += lookup.bags.num_ids;
    }
  }

  int64_t size() const { return num_ids_ + static_cast<int64_t>(first_.size()); }
  int64_t first(size_t lookup) const { return first_[lookup]; }
  int64_t of_default(size_t lookup) const { return num_ids_ + static_cast<int64_t>(lookup); }

 private:
  int64_t num_ids_ = 0;
  std::vector<int64_t> first_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_INVERSE_PLACES_H_
