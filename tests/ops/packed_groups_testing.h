// Shared by the tests of packed lookups: servers of random groups, and what is sent to them.
#ifndef GRAPH_OPT_TESTS_PACKED_GROUPS_TESTING_H_
#define GRAPH_OPT_TESTS_PACKED_GROUPS_TESTING_H_

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "group_functors_testing.h"
#include "optimizers/description.h"
#include "packed/row_request.h"
#include "packed/row_update.h"
#include "packed/server_pooling.h"
#include "packed/unique_ids.h"

namespace graph_opt {

// The shards of a group's tables, spread over servers.
struct Servers {
  Servers(Random* random, const Group& group) {
    shards.first_shards.push_back(0);
    for (const OwnedTable& table : group.tables) {
      shards.first_shards.push_back(shards.first_shards.back() + table.map.num_shards());
      shards.widths.push_back(table.dim);
    }
    const int num_shards = shards.first_shards.back();
    count = static_cast<int>(1 + Below(random, std::min(num_shards, 3)));
    for (int i = 0; i < num_shards; ++i) {
      shards.servers.push_back(i < count ? i : static_cast<int>(Below(random, count)));
    }
    std::shuffle(shards.servers.begin(), shards.servers.end(), *random);
  }

  PackedShards shards;
  int count;
};

inline std::vector<GradientTable> GradientTables(const Group& group) {
  std::vector<GradientTable> tables(group.tables.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    tables[t].shards = group.tables[t].map;
    tables[t].dim = group.tables[t].dim;
  }
  return tables;
}

// Which tables' servers pool: some of those that consist of one shard.
inline std::vector<bool> RandomPooling(Random* random, const Group& group) {
  std::vector<bool> pools;
  for (const OwnedTable& table : group.tables) {
    pools.push_back(table.map.num_shards() == 1 && Below(random, 3) > 0);
  }
  return pools;
}

// The lookups of tables whose servers do not pool.
inline std::vector<PooledGradient> ByRows(const Group& group, const std::vector<bool>& pools) {
  std::vector<PooledGradient> lookups;
  for (const PooledGradient& lookup : group.Gradients()) {
    if (!pools[lookup.table]) lookups.push_back(lookup);
  }
  return lookups;
}

// The packed bags of a table's lookups, and the number of lookups and bags.
struct BagsOfTable {
  BagsOfTable(const Group& group, int table) {
    for (const PooledGradient& lookup : group.Gradients()) {
      if (lookup.table != table) continue;
      BagPacking packing;
      CHECK(packing.Read(lookup.bags, group.tables[table].map.num_rows()).kind == BagFault::kNone);
      std::vector<int64_t> packed(packing.num_words(), -1);
      CHECK(packing.Write(packed.data()) == packed.data() + packed.size());
      words.insert(words.end(), packed.begin(), packed.end());
      lookups += 1;
      bags += lookup.bags.num_bags;
    }
  }

  std::vector<int64_t> words;
  int64_t lookups = 0;
  int64_t bags = 0;
};

// What is sent for a lookup, as by the ops, in memory of exactly the right size.
struct PackedLookup {
  PackedLookup(Random* random, const Group& group, const RowKernels& kernels, Parallel* threads)
      : servers(random, group),
        pools(RandomPooling(random, group)),
        requests(servers.count),
        rows(servers.count) {
    const std::vector<GradientTable> tables = GradientTables(group);
    const std::vector<PooledGradient> lookups = ByRows(group, pools);
    const std::vector<KeyTable> none_by_key(tables.size());
    UniqueIds unique(tables, none_by_key, lookups, threads);
    CHECK(unique.Find().kind == BagFault::kNone);
    std::vector<std::vector<std::vector<int64_t>>> found(tables.size());
    std::vector<std::vector<int64_t*>> to(tables.size());
    for (size_t t = 0; t < tables.size(); ++t) {
      for (int s = 0; s < tables[t].shards.num_shards(); ++s) {
        found[t].emplace_back(unique.NumRows(static_cast<int>(t), s));
        to[t].push_back(found[t].back().data());
        counts.push_back(pools[t] ? kPooledByServer : unique.NumRows(static_cast<int>(t), s));
      }
    }
    inverse.resize(unique.inverse_size());
    unique.Write(to, {}, inverse.data());
    CheckRows(group, tables, found);
    std::vector<std::vector<ServedShard>> served(servers.count);
    size_t shard = 0;
    for (size_t t = 0; t < tables.size(); ++t) {
      const BagsOfTable bags(group, static_cast<int>(t));
      servers.shards.num_bags.push_back(bags.bags);
      for (size_t s = 0; s < found[t].size(); ++s, ++shard) {
        const std::vector<float>& part = group.tables[t].parts[s];
        const int64_t num_rows = tables[t].shards.end_key(s) - tables[t].shards.first_key(s);
        const std::vector<int64_t>& words = pools[t] ? bags.words : found[t][s];
        std::vector<int64_t>& request = requests[servers.shards.servers[shard]];
        request.push_back(pools[t] ? bags.lookups : 0);
        request.push_back(static_cast<int64_t>(words.size()));
        request.insert(request.end(), words.begin(), words.end());
        served[servers.shards.servers[shard]].push_back(
            ServedShard{"t" + std::to_string(t), part.data(), num_rows, tables[t].dim});
      }
    }
    for (int server = 0; server < servers.count; ++server) {
      std::vector<int64_t>& request = requests[server];
      request.shrink_to_fit();
      std::vector<RequestedRows> asked;
      CHECK(ReadRequest(request.data(), request.size(), served[server], &asked).ok());
      int64_t size = 0;
      for (size_t i = 0; i < asked.size(); ++i) size += asked[i].count * served[server][i].dim;
      rows[server].resize(size);
      char* const packed = reinterpret_cast<char*>(rows[server].data());
      CHECK(GatherRows(served[server], asked, RowType::kFloat, kernels, threads, packed).ok());
    }
  }

  // The rows are exactly those that ids name, unique and ascending.
  void CheckRows(const Group& group, const std::vector<GradientTable>& tables,
                 const std::vector<std::vector<std::vector<int64_t>>>& found) const {
    for (size_t t = 0; t < tables.size(); ++t) {
      if (pools[t]) continue;
      std::set<int64_t> expected;
      for (size_t i = 0; i < group.bags.size(); ++i) {
        if (group.lookup_tables[i] != static_cast<int>(t)) continue;
        const OwnedBags& bags = *group.bags[i];
        for (const auto& list : Lists(bags)) {
          if (list.empty() && bags.filled_id >= 0) {
            expected.insert(tables[t].shards.KeyOf(bags.filled_id));
          }
          for (const Occurrence& one : list) expected.insert(tables[t].shards.KeyOf(one.id));
        }
      }
      auto next = expected.begin();
      for (size_t s = 0; s < found[t].size(); ++s) {
        for (int64_t row : found[t][s]) {
          CHECK(next != expected.end() && *next == tables[t].shards.first_key(s) + row);
          ++next;
        }
      }
      CHECK(next == expected.end());
    }
  }

  std::vector<Table> Tables() {
    std::vector<SentRows> sent;
    for (const std::vector<float>& one : rows) {
      sent.push_back(
          SentRows{reinterpret_cast<const char*>(one.data()), static_cast<int64_t>(one.size())});
    }
    servers.shards.counts = counts.data();
    std::vector<Table> tables;
    CHECK(PackedTables(servers.shards, sent, RowType::kFloat, &tables).ok());
    return tables;
  }

  Servers servers;
  std::vector<bool> pools;
  std::vector<std::vector<int64_t>> requests;
  std::vector<std::vector<float>> rows;
  std::vector<int64_t> counts;
  std::vector<int32_t> inverse;
};

// An update for each server, in memory of exactly the right size, aligned for int64.
struct PackedUpdates {
  PackedUpdates(const Group& group, const Servers& servers, const std::vector<bool>& pools,
                const RowKernels& kernels, Parallel* threads)
      : bytes(servers.count), sizes(servers.count) {
    const std::vector<GradientTable> tables = GradientTables(group);
    GroupGradient gradient(tables, ByRows(group, pools), kernels, threads);
    CHECK(gradient.Sort().kind == BagFault::kNone);
    std::vector<std::vector<UpdateBlock>> blocks(servers.count);
    std::vector<std::pair<int, size_t>> places;  // of each shard: server and block
    std::vector<BagsOfTable> bags;
    for (size_t t = 0; t < tables.size(); ++t) {
      bags.emplace_back(group, static_cast<int>(t));
      for (int s = 0; s < tables[t].shards.num_shards(); ++s) {
        const int server = servers.shards.servers[places.size()];
        const int64_t rows = gradient.NumRows(static_cast<int>(t), s);
        UpdateBlock block = {rows, tables[t].dim, 0, rows, nullptr, nullptr};
        if (pools[t]) {
          block.count = bags[t].bags;
          block.lookups = bags[t].lookups;
          block.words = static_cast<int64_t>(bags[t].words.size());
        }
        places.emplace_back(server, blocks[server].size());
        blocks[server].push_back(block);
      }
    }
    for (int server = 0; server < servers.count; ++server) {
      sizes[server] = UpdateBytes(blocks[server]);
      bytes[server].reset(new char[sizes[server]]);
      LayOutUpdate(bytes[server].get(), &blocks[server]);
    }
    std::vector<std::vector<GroupGradient::ShardSums>> sums(tables.size());
    size_t shard = 0;
    for (size_t t = 0; t < tables.size(); ++t) {
      for (int s = 0; s < tables[t].shards.num_shards(); ++s, ++shard) {
        const UpdateBlock& block = blocks[places[shard].first][places[shard].second];
        sums[t].push_back({block.rows, block.values});
        if (!pools[t]) continue;
        std::copy(bags[t].words.begin(), bags[t].words.end(), block.rows);
        float* values = block.values;
        for (size_t i = 0; i < group.bags.size(); ++i) {
          if (group.lookup_tables[i] != static_cast<int>(t)) continue;
          values = std::copy(group.gradients[i].begin(), group.gradients[i].end(), values);
        }
      }
    }
    gradient.SumRows(sums);
  }

  std::vector<std::unique_ptr<char[]>> bytes;
  std::vector<int64_t> sizes;
};

// Tables with an optimizer's slots.
struct Trained {
  Trained(const UsualOptimizer& optimizer, const std::vector<OwnedTable>& start)
      : num_slots(optimizer.initial_slots.size()), tables(start) {
    for (const OwnedTable& table : tables) {
      for (const auto& part : table.parts) {
        for (float initial : optimizer.initial_slots) slots.emplace_back(part.size(), initial);
      }
    }
  }

  // Those of one of all shards.
  void PutSlots(size_t shard, float** to) {
    for (size_t slot = 0; slot < num_slots; ++slot)
      to[slot] = slots[num_slots * shard + slot].data();
  }

  size_t num_slots;
  std::vector<OwnedTable> tables;
  std::vector<std::vector<float>> slots;  // of each shard one after another
};

inline std::vector<std::vector<UpdatedShard>> ShardsOf(const Servers& servers, Trained* trained) {
  std::vector<std::vector<UpdatedShard>> shards(servers.count);
  size_t shard = 0;
  for (OwnedTable& table : trained->tables) {
    for (int s = 0; s < table.map.num_shards(); ++s, ++shard) {
      UpdatedShard one = {};
      one.table = "t";
      one.rows = table.parts[s].data();
      trained->PutSlots(shard, one.slots);
      one.num_rows = table.map.end_key(s) - table.map.first_key(s);
      one.dim = table.dim;
      shards[servers.shards.servers[shard]].push_back(one);
    }
  }
  return shards;
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_TESTS_PACKED_GROUPS_TESTING_H_
