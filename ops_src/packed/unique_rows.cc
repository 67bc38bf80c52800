#include "packed/unique_rows.h"

#include <algorithm>
#include <limits>

#include "lookup/bag_order.h"
#include "lookup/radix_sort.h"

namespace graph_opt {

UniqueRows::UniqueRows(const std::vector<GradientTable>& tables, const std::vector<KeyTable>& keys,
                       const std::vector<PooledGradient>& lookups, const InversePlaces& places,
                       Parallel* parallel)
    : tables_(tables),
      by_key_(keys),
      lookups_(lookups),
      places_(places),
      parallel_(parallel),
      place_bits_(BitsFor(static_cast<uint64_t>(places.size()))) {}

BagFault UniqueRows::Find() {
  num_rows_.clear();
  for (const GradientTable& table : tables_) num_rows_.emplace_back(table.shards.num_shards(), 0);
  if (places_.size() > std::numeric_limits<int32_t>::max()) {
    BagFault fault;
    fault.kind = BagFault::kTooMany;
    return fault;
  }
  ranges_.clear();
  for (const KeyRange& keys : KeyRangesOf(tables_, lookups_, parallel_->num_threads())) {
    if (by_key_[keys.table].owners != KeyOwners::kNone) continue;
    ranges_.push_back(Range{keys, 0, true, {}});
  }
  sorted_ = std::vector<Sorted>(ranges_.size());
  InBagOrder<PooledGradient> lookups(lookups_);
  FirstFault first;
  parallel_->Run(static_cast<int64_t>(ranges_.size()), [&](int64_t i) {
    BagFault fault = Collect(lookups.given(), &ranges_[i], &sorted_[i]);
    if (fault.MayBeOfOrder()) {
      fault = Collect(lookups.in_order(), &ranges_[i], &sorted_[i]);
    }
    if (fault.kind != BagFault::kNone) return first.Tell(fault);
    Order(&ranges_[i], &sorted_[i]);
  });
  for (Range& range : ranges_) {
    for (Piece& piece : range.pieces) {
      int64_t& rows = num_rows_[range.keys.table][piece.shard];
      piece.first_row = rows;
      rows += piece.num_rows;
    }
  }
  return first.fault();
}

// Words of the range's occurrences, (key - first key) << place_bits | place.
BagFault UniqueRows::Collect(const std::vector<PooledGradient>& lookups, Range* range,
                             Sorted* sorted) const {
  const TableShards& shards = tables_[range->keys.table].shards;
  const bool ids_are_keys = shards.ids_are_keys();
  const uint64_t num_rows = static_cast<uint64_t>(shards.num_rows());
  const uint64_t first = static_cast<uint64_t>(range->keys.begin);
  const uint64_t length = static_cast<uint64_t>(range->keys.end - range->keys.begin);
  const int key_bits = BitsFor(length);
  const int place_bits = place_bits_;
  BagFault fault;
  int64_t most = 1;  // one more than can be kept: a word is written before its range is known
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (lookups[i].table == range->keys.table) most += lookups[i].bags.num_ids + 1;
  }
  if (key_bits + place_bits > 64) {
    fault.kind = BagFault::kTooMany;
    return fault;
  }
  sorted->words.Reserve(most);
  uint64_t* const words = sorted->words.data();
  size_t count = 0;
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (lookups[i].table != range->keys.table) continue;
    fault.lookup = static_cast<int64_t>(i);
    const uint64_t first_place = static_cast<uint64_t>(places_.first(i));
    const uint64_t default_place = static_cast<uint64_t>(places_.of_default(i));
    bool has_default = false;
    const Bags& bags = lookups[i].bags;
    const bool in_order = ForEachOccurrence(
        bags, 0, bags.num_bags, &fault.bag,
        [&](int64_t bag, int64_t k, int64_t id, float) {
          uint64_t key = static_cast<uint64_t>(id);
          if (!ids_are_keys || key >= num_rows) {
            const int64_t found = shards.KeyOf(id);
            if (found < 0) {
              fault.kind = BagFault::kIdOutOfRange;
              fault.bag = bag;
              fault.id = id;
              return false;
            }
            key = static_cast<uint64_t>(found);
          }
          uint64_t place = first_place + static_cast<uint64_t>(k);
          if (k < 0) {
            if (has_default) return true;
            has_default = true;
            place = default_place;
          }
          words[count] = (key - first) << place_bits | place;  // kept if it is in the range
          count += key - first < length;
          return true;
        },
        [](int64_t) {});
    if (fault.kind == BagFault::kNone && !in_order) fault.kind = BagFault::kPositionsOutOfOrder;
    if (fault.kind != BagFault::kNone) return fault;
  }
  range->count = count;
  return fault;
}

void UniqueRows::Order(Range* range, Sorted* sorted) const {
  const int64_t length = range->keys.end - range->keys.begin;
  const bool is_whole = tables_[range->keys.table].shards.num_shards() == 1;
  range->is_sorted = !is_whole || !DenseKeys::Pay(0, length, range->count);
  if (range->is_sorted) {
    const int key_bits = BitsFor(static_cast<uint64_t>(length));
    RadixSort(place_bits_, place_bits_ + key_bits, &sorted->words, &sorted->scratch, range->count);
    return CutAtShards(range, *sorted);
  }
  DenseKeys& keys = sorted->keys;
  keys.Begin(0, length);
  for (size_t at = 0; at < range->count; ++at) keys.Add(sorted->words[at] >> place_bits_);
  range->pieces.assign(1, Piece{0, 0, range->count, keys.Rank(), 0});
}

void UniqueRows::CutAtShards(Range* range, const Sorted& sorted) const {
  const TableShards& shards = tables_[range->keys.table].shards;
  const uint64_t* const words = sorted.words.data();
  range->pieces.clear();
  size_t at = 0;
  for (int shard = 0; shard < shards.num_shards() && at < range->count; ++shard) {
    const int64_t end_key = shards.end_key(shard) - range->keys.begin;
    if (end_key <= 0) continue;
    Piece piece = {shard, at, at, 0, 0};
    uint64_t last = ~uint64_t{0};
    for (; at < range->count; ++at) {
      const uint64_t key = words[at] >> place_bits_;
      if (key >= static_cast<uint64_t>(end_key)) break;
      piece.num_rows += key != last;
      last = key;
    }
    piece.end = at;
    if (piece.num_rows > 0) range->pieces.push_back(piece);
  }
}

void UniqueRows::Write(const std::vector<std::vector<int64_t*>>& rows, int32_t* inverse) {
  std::vector<std::vector<int64_t>> first_packed;
  for (const std::vector<int64_t>& counts : num_rows_) {
    first_packed.emplace_back(1, 0);
    for (int64_t count : counts) first_packed.back().push_back(first_packed.back().back() + count);
  }
  parallel_->Run(static_cast<int64_t>(ranges_.size()), [&](int64_t i) {
    const Range& range = ranges_[i];
    Sorted& sorted = sorted_[i];
    if (range.is_sorted) return WriteSorted(range, sorted, first_packed, rows, inverse);
    WriteRanked(range, &sorted, rows[range.keys.table][0], inverse);
  });
}

void UniqueRows::WriteSorted(const Range& range, const Sorted& sorted,
                             const std::vector<std::vector<int64_t>>& first_packed,
                             const std::vector<std::vector<int64_t*>>& rows,
                             int32_t* inverse) const {
  const uint64_t place_mask = (uint64_t{1} << place_bits_) - 1;
  const KeyRange& keys = range.keys;
  const uint64_t* const words = sorted.words.data();
  for (const Piece& piece : range.pieces) {
    // Words count from the range's first key, rows from the shard's.
    const int64_t shift = keys.begin - tables_[keys.table].shards.first_key(piece.shard);
    int64_t* row = rows[keys.table][piece.shard] + piece.first_row;
    int64_t packed = first_packed[keys.table][piece.shard] + piece.first_row - 1;
    uint64_t last = ~uint64_t{0};
    for (size_t at = piece.begin; at < piece.end; ++at) {
      const uint64_t key = words[at] >> place_bits_;
      if (key != last) {
        *row++ = static_cast<int64_t>(key) + shift;
        ++packed;
        last = key;
      }
      inverse[words[at] & place_mask] = static_cast<int32_t>(packed);
    }
  }
}

// Of a table in one shard.
void UniqueRows::WriteRanked(const Range& range, Sorted* sorted, int64_t* rows,
                             int32_t* inverse) const {
  const uint64_t place_mask = (uint64_t{1} << place_bits_) - 1;
  const int64_t length = range.keys.end - range.keys.begin;
  const int64_t first_row = range.pieces[0].first_row;
  sorted->ranks.Reserve(length);
  int32_t* const ranks = sorted->ranks.data();
  sorted->keys.ForEach([&](uint64_t key, int64_t rank) {
    ranks[key] = static_cast<int32_t>(first_row + rank);
    rows[first_row + rank] = static_cast<int64_t>(key) + range.keys.begin;
  });
  const uint64_t* const words = sorted->words.data();
  for (size_t at = 0; at < range.count; ++at) {
    inverse[words[at] & place_mask] = ranks[words[at] >> place_bits_];
  }
}

}  // namespace graph_opt
