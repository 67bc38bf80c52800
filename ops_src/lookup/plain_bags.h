#ifndef GRAPH_OPT_LOOKUP_PLAIN_BAGS_H_
#define GRAPH_OPT_LOOKUP_PLAIN_BAGS_H_

#include <algorithm>
#include <cstdint>

#include "lookup/bags.h"

namespace graph_opt {

// Plain bags are those of which nothing is dropped and to which nothing is added. They are read in
// a loop that has no branch on where a bag ends: with some ids in each bag a processor would guess
// wrong in every other bag, which costs more than all else that is done with an id.

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

// Ids that are dropped are often among the first ones; then all that was read is read again.
constexpr int64_t kIdsBetweenChecks = 256;

// Calls each(k, bag, id) for the ids, k counting from the first one, and sets ends[0 .. num_bags]:
// bag b of the span has the ids from ends[b] to ends[b + 1]. False, after some calls or all, when
// an id is not below `num_rows`, or not of a bag of the span, or not in the order of the bags;
// `each` must stand an id that is none.
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
