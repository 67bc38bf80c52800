#include "packed/numbered_keys.h"

#include <algorithm>
#include <utility>

namespace graph_opt {

NumberedKeys::NumberedKeys(const std::vector<KeyTable>& tables,
                           const std::vector<PooledGradient>& lookups, Parallel* parallel)
    : tables_(tables),
      lookups_(lookups),
      places_(lookups),
      unique_(tables, lookups, places_, parallel) {}

BagFault NumberedKeys::Find() {
  const BagFault fault = unique_.Find();
  if (fault.kind != BagFault::kNone) return fault;
  std::vector<std::vector<ShardKeys>> to(tables_.size());
  keys_.clear();
  for (size_t t = 0; t < tables_.size(); ++t) {
    keys_.emplace_back();
    if (tables_[t].owners == KeyOwners::kNone) continue;
    for (int s = 0; s < tables_[t].num_shards; ++s) {
      const int64_t count = unique_.NumKeys(static_cast<int>(t), s);
      keys_.back().emplace_back(std::max<int64_t>(count, 1));
      to[t].push_back(ShardKeys{keys_.back().back().data(), nullptr});
    }
  }
  inverse_.Reserve(std::max<int64_t>(places_.size(), 1));
  std::fill_n(inverse_.data(), places_.size(), -1);
  unique_.Write(to, inverse_.data());
  return fault;
}

void NumberedKeys::Number(std::vector<GradientTable>* tables,
                          std::vector<PooledGradient>* lookups) const {
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].owners == KeyOwners::kNone) continue;
    std::vector<int64_t> rows;
    for (int s = 0; s < tables_[t].num_shards; ++s) {
      rows.push_back(unique_.NumKeys(static_cast<int>(t), s));
    }
    (*tables)[t].shards = TableShards(Partition::kKeys, std::move(rows));
  }
  for (size_t i = 0; i < lookups_.size(); ++i) {
    if (tables_[lookups_[i].table].owners == KeyOwners::kNone) continue;
    Bags& bags = (*lookups)[i].bags;
    bags.ids = inverse_.data() + places_.first(i);
    bags.wide_ids = false;
    int64_t& of_empty_bags = bags.default_id >= 0 ? bags.default_id : bags.filled_id;
    if (of_empty_bags >= 0) of_empty_bags = inverse_[places_.of_default(i)];
  }
}

void NumberedKeys::ToKeys(int table, int shard, int64_t* rows, int64_t count) const {
  const int64_t* const keys = keys_[table][shard].data();
  for (int64_t i = 0; i < count; ++i) rows[i] = keys[rows[i]];
}

}  // namespace graph_opt
