#include "packed/unique_keys.h"

#include <algorithm>
#include <limits>

#include "lookup/bag_order.h"
#include "lookup/group_lookup.h"

namespace graph_opt {
namespace {

constexpr int kMostParts = 16;
constexpr int kPartBits = 4;
// Fewer ids than this are not worth dividing among threads, each of which reads all of them.
constexpr int64_t kLeastPartIds = 8192;
constexpr int64_t kNamedAtOnce = 4096;

int NumParts(int64_t num_ids, int num_threads) {
  int parts = 1;
  while (parts < num_threads && parts < kMostParts && 2 * parts * kLeastPartIds <= num_ids) {
    parts *= 2;
  }
  return parts;
}

}  // namespace

UniqueKeys::UniqueKeys(const std::vector<KeyTable>& tables,
                       const std::vector<PooledGradient>& lookups, const InversePlaces& places,
                       Parallel* parallel)
    : tables_(tables), lookups_(lookups), places_(places), parallel_(parallel) {}

BagFault UniqueKeys::Find() {
  num_keys_.clear();
  most_counts_.clear();
  parts_.clear();
  std::vector<int64_t> num_ids(tables_.size(), 0);
  for (const PooledGradient& lookup : lookups_) num_ids[lookup.table] += lookup.bags.num_ids;
  for (size_t t = 0; t < tables_.size(); ++t) {
    num_keys_.emplace_back(tables_[t].num_shards, 0);
    most_counts_.emplace_back(tables_[t].num_shards, 0);
    if (tables_[t].owners != KeyOwners::kNone) AddParts(static_cast<int>(t), num_ids[t]);
  }
  if (!parts_.empty() && places_.size() > std::numeric_limits<int32_t>::max()) {
    BagFault fault;
    fault.kind = BagFault::kTooMany;
    return fault;
  }
  InBagOrder<PooledGradient> lookups(lookups_);
  FirstFault first;
  parallel_->Run(static_cast<int64_t>(parts_.size()), [&](int64_t i) {
    BagFault fault = Collect(lookups.given(), &parts_[i]);
    if (fault.MayBeOfOrder()) fault = Collect(lookups.in_order(), &parts_[i]);
    if (fault.kind != BagFault::kNone) return first.Tell(fault);
    CountShards(&parts_[i]);
  });
  if (first.fault().kind != BagFault::kNone) return first.fault();
  for (Part& part : parts_) {
    for (int shard = 0; shard < tables_[part.table].num_shards; ++shard) {
      int64_t& keys = num_keys_[part.table][shard];
      int32_t& most = most_counts_[part.table][shard];
      part.first_key.push_back(keys);
      keys += part.num_keys[shard];
      most = std::max(most, part.most_count[shard]);
    }
  }
  return BagFault();
}

void UniqueKeys::AddParts(int table, int64_t num_ids) {
  const int num_parts = NumParts(num_ids, parallel_->num_threads());
  for (int part = 0; part < num_parts; ++part) {
    parts_.emplace_back();
    parts_.back().table = table;
    parts_.back().part = part;
    parts_.back().num_parts = num_parts;
  }
}

BagFault UniqueKeys::Collect(const std::vector<PooledGradient>& lookups, Part* part) const {
  part->keys.Begin();
  part->named.clear();
  part->named_in_last = kNamedAtOnce;
  BagFault fault;
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (lookups[i].table != part->table) continue;
    const Bags& bags = lookups[i].bags;
    const uint64_t own = static_cast<uint64_t>(part->part);
    const uint64_t mask = static_cast<uint64_t>(part->num_parts) - 1;
    const bool in_order = ForEachOccurrence(
        bags, 0, bags.num_bags, &fault.bag,
        [&](int64_t, int64_t k, int64_t key, float) {
          const uint64_t hash = KeyNumbers::Hash(key);
          if ((hash >> (64 - kPartBits) & mask) != own) return true;
          Add(part, key, hash, k < 0 ? places_.of_default(i) : places_.first(i) + k);
          return true;
        },
        [](int64_t) {});
    if (in_order) continue;
    fault.kind = BagFault::kPositionsOutOfOrder;
    fault.lookup = static_cast<int64_t>(i);
    return fault;
  }
  return BagFault();
}

void UniqueKeys::Add(Part* part, int64_t key, uint64_t hash, int64_t place) const {
  const int32_t before = part->keys.size();
  const int32_t number = part->keys.NumberOf(key, hash);
  if (part->keys.size() > before) {
    if (number >= part->counts_size) {
      ScratchArray<int32_t> counts(std::max<int64_t>(2 * part->counts_size, kNamedAtOnce));
      std::copy_n(part->counts.data(), number, counts.data());
      part->counts_size = std::max<int64_t>(2 * part->counts_size, kNamedAtOnce);
      part->counts.Swap(&counts);
    }
    part->counts[number] = 0;
  }
  ++part->counts[number];
  if (part->named_in_last == kNamedAtOnce) {
    part->named.emplace_back(kNamedAtOnce);
    part->named_in_last = 0;
  }
  part->named.back()[part->named_in_last++] = Named{static_cast<int32_t>(place), number};
}

void UniqueKeys::CountShards(Part* part) const {
  const KeyTable& table = tables_[part->table];
  part->num_keys.assign(table.num_shards, 0);
  part->most_count.assign(table.num_shards, 0);
  for (int32_t number = 0; number < part->keys.size(); ++number) {
    const int shard = OwnerOf(part->keys.keys()[number], table.owners, table.num_shards);
    ++part->num_keys[shard];
    part->most_count[shard] = std::max(part->most_count[shard], part->counts[number]);
  }
}

void UniqueKeys::Write(const std::vector<std::vector<ShardKeys>>& keys, int32_t* inverse) {
  std::vector<std::vector<int64_t>> first_packed;
  for (const std::vector<int64_t>& counts : num_keys_) {
    first_packed.emplace_back(1, 0);
    for (int64_t count : counts) first_packed.back().push_back(first_packed.back().back() + count);
  }
  parallel_->Run(static_cast<int64_t>(parts_.size()), [&](int64_t i) {
    WritePart(parts_[i], first_packed[parts_[i].table], keys[parts_[i].table], inverse);
  });
}

void UniqueKeys::WritePart(const Part& part, const std::vector<int64_t>& first_packed,
                           const std::vector<ShardKeys>& keys, int32_t* inverse) const {
  const KeyTable& table = tables_[part.table];
  std::vector<int64_t> next = part.first_key;  // of each shard
  ScratchArray<int32_t> packed(std::max(part.keys.size(), 1));
  for (int32_t number = 0; number < part.keys.size(); ++number) {
    const int64_t key = part.keys.keys()[number];
    const int shard = OwnerOf(key, table.owners, table.num_shards);
    const int64_t at = next[shard]++;
    keys[shard].keys[at] = key;
    if (keys[shard].counts != nullptr) keys[shard].counts[at] = part.counts[number];
    packed[number] = static_cast<int32_t>(first_packed[shard] + at);
  }
  for (size_t i = 0; i < part.named.size(); ++i) {
    const int64_t count = i + 1 < part.named.size() ? kNamedAtOnce : part.named_in_last;
    const Named* const named = part.named[i].data();
    for (int64_t j = 0; j < count; ++j) inverse[named[j].place] = packed[named[j].number];
  }
}

}  // namespace graph_opt
