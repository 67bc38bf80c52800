// Shared by the tests of packed lookups by key: random groups, what is sent for them, and servers.
#ifndef GRAPH_OPT_TESTS_KEYED_GROUPS_TESTING_H_
#define GRAPH_OPT_TESTS_KEYED_GROUPS_TESTING_H_

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "group_functors_testing.h"
#include "optimizers/description.h"
#include "packed/numbered_keys.h"
#include "packed/row_request.h"
#include "packed/row_update.h"
#include "packed/unique_ids.h"

namespace graph_opt {

constexpr int64_t kBank = 3;  // rows of no key, at the beginning

// A shard of a table by key: rows with their slots beside them, and the row of each key.
struct KeyedShard {
  std::unordered_map<int64_t, int64_t> rows;
  std::vector<float> memory;

  std::vector<int64_t> Find(const int64_t* keys, int64_t count) const {
    std::vector<int64_t> found;
    for (int64_t i = 0; i < count; ++i) {
      const auto row = rows.find(keys[i]);
      found.push_back(row == rows.end() ? 0 : row->second);
    }
    return found;
  }
};

// Tables by key, and static ones beside them; all with the same rows as local tables of one shard.
struct KeyedGroup {
  KeyedGroup(Random* random, const UsualOptimizer& usual, bool many, bool safe)
      : num_slots(static_cast<int64_t>(usual.initial_slots.size())) {
    for (int t = 0; t < 3; ++t) {
      dims.push_back(Below(random, 2) ? 16 : 5);
      owners.push_back(KeyTable{static_cast<KeyOwners>(t % 3),
                                static_cast<int>(t == 0 ? 1 : 1 + Below(random, 3))});
      keys.emplace_back();
      const int64_t num_rows = 1 + Below(random, many ? 9000 : 60);
      for (int64_t row = 0; row < num_rows; ++row) {
        const int64_t key = (row - 20) * 0x1234567890f;
        keys.back().push_back(owners[t].owners == KeyOwners::kNone ? row
                              : safe                               ? key & INT64_MAX
                                                                   : key);
      }
      if (owners[t].owners != KeyOwners::kNone && num_rows > 3) {
        keys.back()[0] = std::numeric_limits<int64_t>::max();
        if (!safe) keys.back()[1] = std::numeric_limits<int64_t>::min();
      }
      weights.emplace_back(num_rows * dims[t]);
      for (float& value : weights.back()) value = Number(random);
      for (float initial : usual.initial_slots) slots.emplace_back(num_rows * dims[t], initial);
    }
    for (int i = 0; i < 5; ++i) {
      const int t = i < 3 ? i : static_cast<int>(Below(random, 3));
      const int64_t num_rows = static_cast<int64_t>(keys[t].size());
      tables.push_back(t);
      bags.emplace_back(new OwnedBags(random, Below(random, 40) + (many ? 4000 : 0), num_rows,
                                      Below(random, 3) == 0));
      OwnedBags& owned = *bags.back();
      owned.bags.safe = safe;
      if (!safe) {
        for (int64_t& id : owned.ids) id = std::max<int64_t>(id, 0);
      }
      owned.bags.wide_ids = true;
      owned.bags.ids = owned.ids.data();
      named.emplace_back();
      for (int64_t id : owned.ids) named.back().push_back(id < 0 ? -1 : keys[t][id]);
      gradients.emplace_back(owned.bags.num_bags * dims[t]);
      for (float& value : gradients.back()) value = Number(random);
    }
  }

  // Of lookups by row in the local tables, or by key.
  std::vector<PooledGradient> Lookups(bool by_key, bool of_gradients) const {
    std::vector<PooledGradient> lookups(bags.size());
    for (size_t i = 0; i < bags.size(); ++i) {
      const int t = tables[i];
      Bags& one = lookups[i].bags;
      one = bags[i]->bags;
      one.filled_id = of_gradients ? bags[i]->filled_id : -1;
      if (by_key) {
        one.ids = named[i].data();
        if (one.default_id >= 0 && keys[t][one.default_id] < 0) one.default_id = -1;
        if (one.default_id >= 0) one.default_id = keys[t][one.default_id];
        if (one.filled_id >= 0 && keys[t][one.filled_id] < 0) one.filled_id = -1;
        if (one.filled_id >= 0) one.filled_id = keys[t][one.filled_id];
      } else {
        if (one.default_id >= 0 && keys[t][one.default_id] < 0) one.default_id = -1;
        if (one.filled_id >= 0 && keys[t][one.filled_id] < 0) one.filled_id = -1;
      }
      lookups[i].table = t;
      lookups[i].gradients = gradients[i].data();
      lookups[i].stride = dims[t];
    }
    return lookups;
  }

  std::vector<GradientTable> GradientTables() const {
    std::vector<GradientTable> all(dims.size());
    for (size_t t = 0; t < dims.size(); ++t) {
      all[t].shards = TableShards(
          Partition::kMod,
          std::vector<int64_t>(owners[t].num_shards, owners[t].owners == KeyOwners::kNone
                                                         ? static_cast<int64_t>(keys[t].size())
                                                         : 0));
      all[t].dim = dims[t];
    }
    return all;
  }

  // The shards of table t, whose rows are `stride` floats apart.
  int64_t StrideOf(int t) const {
    return owners[t].owners == KeyOwners::kNone ? dims[t] : (1 + num_slots) * dims[t] + 3;
  }
  std::vector<KeyedShard> ShardsOf(int t) const {
    std::vector<KeyedShard> shards(owners[t].num_shards);
    for (KeyedShard& shard : shards) shard.memory.assign(kBank * StrideOf(t), 0.25f);
    for (size_t row = 0; row < keys[t].size(); ++row) {
      KeyedShard& shard = shards[OwnerOf(keys[t][row], owners[t].owners, owners[t].num_shards)];
      shard.rows[keys[t][row]] = static_cast<int64_t>(shard.memory.size()) / StrideOf(t);
      const float* const from = weights[t].data() + row * dims[t];
      shard.memory.insert(shard.memory.end(), from, from + dims[t]);
      for (int64_t slot = 0; slot < num_slots; ++slot) {
        const float* const of_slot = slots[t * num_slots + slot].data() + row * dims[t];
        shard.memory.insert(shard.memory.end(), of_slot, of_slot + dims[t]);
      }
      shard.memory.insert(shard.memory.end(), 3, -1.0f);
    }
    return shards;
  }

  const int64_t num_slots;
  std::vector<int64_t> dims;
  std::vector<KeyTable> owners;
  std::vector<std::vector<int64_t>> keys;  // of each row
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<float>> slots;  // of each table one after another
  std::vector<int> tables;                // of each lookup
  std::vector<std::unique_ptr<OwnedBags>> bags;
  std::vector<std::vector<int64_t>> named;  // keys of each lookup
  std::vector<std::vector<float>> gradients;
};

// What is asked of all shards, as one message, and what the asker keeps.
struct KeyRequests {
  KeyRequests(const KeyedGroup& group, NewKeys new_keys, Parallel* threads) {
    const std::vector<GradientTable> tables = group.GradientTables();
    const std::vector<PooledGradient> lookups = group.Lookups(true, false);
    UniqueIds unique(tables, group.owners, lookups, threads);
    CHECK(unique.Find().kind == BagFault::kNone);
    std::vector<std::vector<int64_t*>> rows(tables.size());
    std::vector<std::vector<ShardKeys>> keys(tables.size());
    std::vector<std::vector<int32_t>> key_counts;
    std::vector<size_t> begins;
    shards.first_shards.push_back(0);
    for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
      for (int s = 0; s < group.owners[t].num_shards; ++s) {
        const bool by_key = group.owners[t].owners != KeyOwners::kNone;
        counts.push_back(unique.NumRows(t, s));
        const int64_t words =
            by_key ? KeyRequestWords(counts.back(), unique.MostCount(t, s)) : counts.back();
        message.push_back(by_key ? kByKey : 0);
        message.push_back(words);
        begins.push_back(message.size());
        message.resize(message.size() + words, -7);
        key_counts.emplace_back(counts.back(), -1);
        shards.servers.push_back(0);
      }
      shards.first_shards.push_back(static_cast<int>(counts.size()));
      shards.widths.push_back(group.dims[t]);
      shards.num_bags.push_back(0);
    }
    size_t shard = 0;
    for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
      for (int s = 0; s < group.owners[t].num_shards; ++s, ++shard) {
        int64_t* const words = message.data() + begins[shard];
        rows[t].push_back(words);
        keys[t].push_back(ShardKeys{words + kKeyHeaderWords, key_counts[shard].data()});
        if (group.owners[t].owners == KeyOwners::kNone) continue;
        WriteKeyHeader(counts[shard], new_keys, unique.MostCount(t, s), words);
      }
    }
    inverse.resize(unique.inverse_size());
    unique.Write(rows, keys, inverse.data());
    shard = 0;
    for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
      for (int s = 0; s < group.owners[t].num_shards; ++s, ++shard) {
        if (group.owners[t].owners == KeyOwners::kNone) continue;
        WriteKeyCounts(key_counts[shard].data(), counts[shard], unique.MostCount(t, s),
                       message.data() + begins[shard]);
      }
    }
    shards.counts = counts.data();
  }

  PackedShards shards;
  std::vector<int64_t> counts;
  std::vector<int64_t> message;
  std::vector<int32_t> inverse;
};

// All shards of a group, as served.
struct Served {
  explicit Served(const KeyedGroup& group) {
    for (int t = 0; t < static_cast<int>(group.dims.size()); ++t) {
      const bool by_key = group.owners[t].owners != KeyOwners::kNone;
      shards.push_back(group.ShardsOf(t));
      for (KeyedShard& shard : shards.back()) {
        ServedShard one = {};
        one.table = "t" + std::to_string(t);
        one.dim = group.dims[t];
        one.by_key = by_key;
        if (by_key) {
          one.data = shard.memory.data();
          one.stride = group.StrideOf(t);
          one.num_rows = static_cast<int64_t>(shard.memory.size()) / one.stride;
        } else {
          one.data = group.weights[t].data();
          one.num_rows = static_cast<int64_t>(group.keys[t].size());
        }
        served.push_back(one);
        of.push_back(&shard);
      }
    }
  }

  // Gives keys their rows.
  void Find(std::vector<RequestedRows>* requested) {
    for (size_t i = 0; i < served.size(); ++i) {
      if (!served[i].by_key) continue;
      found.push_back(of[i]->Find((*requested)[i].keys.keys, (*requested)[i].keys.count));
      (*requested)[i].rows = found.back().data();
    }
  }

  void Find(RowUpdate* update) {
    for (size_t i = 0; i < served.size(); ++i) {
      if (!served[i].by_key) continue;
      found.push_back(of[i]->Find(update->blocks[i].rows, update->blocks[i].count));
      update->blocks[i].rows = found.back().data();
    }
  }

  std::vector<std::vector<KeyedShard>> shards;
  std::vector<ServedShard> served;
  std::vector<const KeyedShard*> of;
  std::vector<std::vector<int64_t>> found;
};

// The update of all shards, as one message.
struct KeyUpdate {
  KeyUpdate(const KeyedGroup& group, const RowKernels& kernels, Parallel* threads) {
    std::vector<GradientTable> tables = group.GradientTables();
    const std::vector<PooledGradient> by_key = group.Lookups(true, true);
    NumberedKeys numbered(group.owners, by_key, threads);
    CHECK(numbered.Find().kind == BagFault::kNone);
    std::vector<PooledGradient> by_row = by_key;
    numbered.Number(&tables, &by_row);
    GroupGradient gradient(tables, by_row, kernels, threads);
    CHECK(gradient.Sort().kind == BagFault::kNone);
    std::vector<UpdateBlock> blocks;
    for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
      for (int s = 0; s < group.owners[t].num_shards; ++s) {
        const int64_t rows = gradient.NumRows(t, s);
        const bool is_keyed = group.owners[t].owners != KeyOwners::kNone;
        blocks.push_back(
            UpdateBlock{rows, group.dims[t], is_keyed ? kByKey : 0, rows, nullptr, nullptr});
      }
    }
    size = UpdateBytes(blocks);
    bytes.reset(new char[size]);
    LayOutUpdate(bytes.get(), &blocks);
    std::vector<std::vector<GroupGradient::ShardSums>> sums(tables.size());
    size_t next = 0;
    for (size_t t = 0; t < tables.size(); ++t) {
      for (int s = 0; s < group.owners[t].num_shards; ++s, ++next) {
        sums[t].push_back({blocks[next].rows, blocks[next].values});
      }
    }
    gradient.SumRows(sums);
    next = 0;
    for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
      for (int s = 0; s < group.owners[t].num_shards; ++s, ++next) {
        if (group.owners[t].owners == KeyOwners::kNone) continue;
        numbered.ToKeys(t, s, blocks[next].rows, blocks[next].count);
      }
    }
  }

  std::unique_ptr<char[]> bytes;
  int64_t size = 0;
};

// Also writes those of static tables to `weights` and `slots`, which must outlive the shards.
inline std::vector<UpdatedShard> UpdatedShards(const KeyedGroup& group, const Served& served,
                                               std::vector<std::vector<float>>* weights,
                                               std::vector<std::vector<float>>* slots) {
  std::vector<UpdatedShard> shards;
  for (int t = 0; t < static_cast<int>(group.dims.size()); ++t) {
    for (int s = 0; s < group.owners[t].num_shards; ++s) {
      const ServedShard& of = served.served[shards.size()];
      UpdatedShard shard = {};
      shard.table = of.table;
      shard.num_rows = of.num_rows;
      shard.dim = of.dim;
      shard.by_key = of.by_key;
      shard.rows =
          of.by_key ? static_cast<float*>(const_cast<void*>(of.data)) : (*weights)[t].data();
      shard.stride = of.stride;
      shard.first_row = of.by_key ? kBank : 0;
      for (int64_t slot = 0; slot < group.num_slots; ++slot) {
        shard.slots[slot] = of.by_key ? shard.rows + (1 + slot) * of.dim
                                      : (*slots)[t * group.num_slots + slot].data();
      }
      shards.push_back(shard);
    }
  }
  return shards;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_KEYED_GROUPS_TESTING_H_
