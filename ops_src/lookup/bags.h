#ifndef GRAPH_OPT_LOOKUP_BAGS_H_
#define GRAPH_OPT_LOOKUP_BAGS_H_

#include <algorithm>
#include <cstdint>

#include "lookup/parallel.h"
#include "rows/row_types.h"

namespace graph_opt {

// The ids of one lookup, in bags: one bag is pooled into one row of the result.
//
//   kDense    ids [B, width]                     bag b has ids[b, :]
//   kRagged   ids [K], positions [B + 1]         bag b has ids[positions[b] : positions[b + 1]]
//   kSparse   ids [K], positions [K, stride]     ids[k] belongs to bag positions[k, 0], ascending
//
// Sparse ids in another order come with `places` (bag_order.h): the k-th occurrence in the order of
// the bags is ids[places[k]].
//
// If `safe`, ids are dropped as in tf.nn.safe_embedding_lookup_sparse: those below 0 and, unless
// the combiner is a sum, those whose weight is not above 0. An empty bag gives zeros, or the row
// `default_id` with weight 1 if that is >= 0. If not `safe`, nothing is dropped.
struct Bags {
  enum Layout { kDense, kRagged, kSparse };

  Layout layout = kDense;
  bool wide_ids = true;  // int64, else int32
  const void* ids = nullptr;
  int64_t num_ids = 0;
  const int64_t* positions = nullptr;
  int64_t stride = 1;
  const int64_t* places = nullptr;
  int64_t width = 1;
  int64_t num_bags = 0;
  const float* weights = nullptr;
  bool safe = true;
  int64_t default_id = -1;
  int64_t filled_id = -1;  // of gradients only, see kFilled
  Combiner combiner = Combiner::kMean;

  bool drops_weights() const { return safe && weights != nullptr && combiner != Combiner::kSum; }

  // The index of the k-th occurrence among the ids.
  int64_t Place(int64_t k) const { return places == nullptr ? k : places[k]; }

  // First occurrence of `bag` or a later bag. Between 0 and num_ids, whatever is in `positions`.
  int64_t Begin(int64_t bag) const {
    if (bag == 0) return 0;
    if (layout == kDense) return bag * width;
    if (layout == kRagged) return std::min(std::max<int64_t>(positions[bag], 0), num_ids);
    int64_t low = 0;
    int64_t high = num_ids;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (positions[Place(middle) * stride] < bag) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Where a block of bags that stops before `bag` ends: the last block takes whatever is left.
  int64_t End(int64_t bag) const { return bag == num_bags ? num_ids : Begin(bag); }
};

// What is wrong with an input. Of several faults, the first in the order of lookups and bags is
// reported, whatever the number of threads.
struct BagFault {
  enum Kind { kNone, kIdOutOfRange, kPositionsOutOfOrder, kTooMany };

  Kind kind = kNone;
  int64_t lookup = 0;
  int64_t bag = 0;
  int64_t id = 0;

  // Whether sparse ids that are not sorted by bag can be the cause: some bags then look empty, and
  // may ask for a default row that does not exist.
  bool MayBeOfOrder() const { return kind == kPositionsOutOfOrder || kind == kIdOutOfRange; }

  bool Before(const BagFault& other) const {
    if (kind == kNone || other.kind == kNone) return other.kind == kNone && kind != kNone;
    return lookup != other.lookup ? lookup < other.lookup : bag < other.bag;
  }
};

// Bags [begin, end) of one lookup: what one thread does at a time.
struct BagBlock {
  int64_t lookup;
  int64_t begin;
  int64_t end;
};

// Stands for the place of an id that is not there. tf.nn.safe_embedding_lookup_sparse reads row
// `filled_id` for an empty bag and then drops what it read, so that row gets a gradient of zero, by
// which optimizers with momentum move it.
constexpr int64_t kFilled = -2;

// Calls occurrence(bag, place, id, weight) for each id of the block that is not dropped, in order,
// and bag_end(bag) after each bag. `place` is the index of the id, or -1 for `default_id`, or
// kFilled. Returns false, and the bag, if the positions are not in order.
template <typename Id, typename Occurrence, typename BagEnd>
bool ForEachTyped(const Bags& bags, int64_t begin, int64_t end, int64_t* bad_bag,
                  const Occurrence& occurrence, const BagEnd& bag_end) {
  const Id* ids = static_cast<const Id*>(bags.ids);
  const bool drops_weights = bags.drops_weights();
  int64_t k = bags.Begin(begin);
  const int64_t block_end = bags.End(end);
  for (int64_t bag = begin; bag < end; ++bag) {
    *bad_bag = bag;
    int64_t bag_stop = k;
    if (bags.layout == Bags::kSparse) {
      while (bag_stop < block_end && bags.positions[bags.Place(bag_stop) * bags.stride] == bag) {
        ++bag_stop;
      }
    } else if (bags.layout == Bags::kRagged) {
      bag_stop = bags.positions[bag + 1];
      if (bags.positions[bag] != k || bag_stop < k || bag_stop > bags.num_ids) return false;
    } else {
      bag_stop = k + bags.width;
    }
    bool empty = true;
    for (; k < bag_stop; ++k) {
      const int64_t place = bags.Place(k);
      const int64_t id = ids[place];
      if (bags.safe && id < 0) continue;
      const float weight = bags.weights == nullptr ? 1.0f : bags.weights[place];
      if (drops_weights && !(weight > 0)) continue;
      empty = false;
      if (!occurrence(bag, place, id, weight)) return true;
    }
    if (empty && bags.default_id >= 0) {
      if (!occurrence(bag, int64_t{-1}, bags.default_id, 1.0f)) return true;
    } else if (empty && bags.filled_id >= 0) {
      if (!occurrence(bag, kFilled, bags.filled_id, 0.0f)) return true;
    }
    bag_end(bag);
  }
  return k == block_end;  // else an occurrence belongs to an earlier bag, or to none
}

template <typename Occurrence, typename BagEnd>
bool ForEachOccurrence(const Bags& bags, int64_t begin, int64_t end, int64_t* bad_bag,
                       const Occurrence& occurrence, const BagEnd& bag_end) {
  if (bags.wide_ids) {
    return ForEachTyped<int64_t>(bags, begin, end, bad_bag, occurrence, bag_end);
  }
  return ForEachTyped<int32_t>(bags, begin, end, bad_bag, occurrence, bag_end);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_BAGS_H_
