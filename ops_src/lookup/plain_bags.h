#ifndef GRAPH_OPT_LOOKUP_PLAIN_BAGS_H_
#define GRAPH_OPT_LOOKUP_PLAIN_BAGS_H_

#include <algorithm>
#include <cstdint>

#include "lookup/bags.h"

namespace graph_opt {

// Plain bags are those from which nothing is dropped and to which nothing is added. The loop that
// reads them does not branch at the end of a bag: with a few ids per bag, the processor would
// mispredict every other bag, which costs more than everything else that is done with an id.

inline bool MayBePlain(const Bags& bags) {
  return bags.layout == Bags::kSparse && bags.weights == nullptr && bags.places == nullptr &&
         bags.default_id < 0;
}

// Bags [first_bag, first_bag + num_bags), and the ids [begin, end) that are theirs.
struct BagSpan {
  int64_t first_bag;
  int64_t num_bags;
  int64_t begin;
  int64_t end;
};

// Dropped ids tend to show up early, and what was read until then has to be read again.
constexpr int64_t kIdsBetweenChecks = 256;

// Calls each(k, bag, id) for the ids, k counting from the first one, and sets ends[0 .. num_bags]:
// bag b of the span has the ids from ends[b] to ends[b + 1]. Returns false, after any number of
// calls, if an id is not below `num_rows`, does not belong to a bag of the span, or is out of
// order; `each` must tolerate such an id.
template <typename Id, typename Each>
bool ForEachPlain(const Bags& bags, const BagSpan& span, int64_t num_rows, int64_t* ends,
                  const Each& each) {
  const Id* const ids = static_cast<const Id*>(bags.ids);
  const uint64_t rows = static_cast<uint64_t>(num_rows);
  std::fill_n(ends, span.num_bags + 1, 0);
  uint64_t last = 0;
  bool is_plain = true;
  for (int64_t k = span.begin; k < span.end; ++k) {
    if (k % kIdsBetweenChecks == 0 && !is_plain) return false;
    const uint64_t bag = static_cast<uint64_t>(bags.positions[k * bags.stride]) -
                         static_cast<uint64_t>(span.first_bag);
    const uint64_t id = static_cast<uint64_t>(static_cast<int64_t>(ids[k]));
    if (bag >= static_cast<uint64_t>(span.num_bags)) return false;
    is_plain &= bag >= last;
    is_plain &= id < rows;
    last = bag;
    ends[bag + 1] = k + 1 - span.begin;
    each(k - span.begin, span.first_bag + static_cast<int64_t>(bag), id);
  }
  // An empty bag ends where the one before does.
  for (int64_t b = 0; b < span.num_bags; ++b) ends[b + 1] = std::max(ends[b + 1], ends[b]);
  return is_plain;
}

template <typename Each>
bool ForEachPlainId(const Bags& bags, const BagSpan& span, int64_t num_rows, int64_t* ends,
                    const Each& each) {
  if (bags.wide_ids) return ForEachPlain<int64_t>(bags, span, num_rows, ends, each);
  return ForEachPlain<int32_t>(bags, span, num_rows, ends, each);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_PLAIN_BAGS_H_
