// The functors of packed lookups without TensorFlow, on random groups: bitwise equal to those of
// local tables, and safe whatever a request or an update contains.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "packed/sent_bags.h"
#include "packed_groups_testing.h"

namespace graph_opt {
namespace {

void LooksUpAsLocalTablesDo(const RowKernels& kernels, int seed) {
  Random random(seed);
  Group group(&random, 3, 5, seed % 2 == 1, seed % 10 == 4 || seed % 10 == 7);
  Threads threads(1 + seed % 3);
  CHECK(GroupLookup(group.Tables(), group.Lookups(), kernels, &threads).kind == BagFault::kNone);
  const std::vector<std::vector<float>> expected = group.pooled;
  PackedLookup packed(&random, group, kernels, &threads);
  for (auto& pooled : group.pooled) std::fill(pooled.begin(), pooled.end(), 55.0f);
  std::vector<Lookup> lookups = group.Lookups();
  const int32_t* numbers = packed.inverse.data();
  const int32_t* defaults =
      packed.inverse.data() + packed.inverse.size() - ByRows(group, packed.pools).size();
  std::vector<int32_t> bag_numbers(100000);
  std::iota(bag_numbers.begin(), bag_numbers.end(), 0);
  std::vector<int64_t> next(group.tables.size(), 0);
  for (Lookup& lookup : lookups) {
    if (packed.pools[lookup.table]) {
      Bags bags;
      bags.layout = Bags::kDense;
      bags.wide_ids = false;
      bags.ids = bag_numbers.data() + next[lookup.table];
      bags.num_ids = bags.num_bags = lookup.bags.num_bags;
      next[lookup.table] += bags.num_bags;
      lookup.bags = bags;
      continue;
    }
    lookup.bags.ids = numbers;
    lookup.bags.wide_ids = false;
    lookup.bags.default_id = lookup.bags.default_id < 0 ? -1 : *defaults;
    numbers += lookup.bags.num_ids;
    ++defaults;
  }
  CHECK(GroupLookup(packed.Tables(), lookups, kernels, &threads).kind == BagFault::kNone);
  CHECK(group.pooled == expected);
}

void UpdatesAsLocalTablesAre(const RowKernels& kernels, int seed) {
  constexpr int kSteps = 2;  // the first one reads slots that are all the same
  const std::vector<UsualOptimizer> optimizers = UsualOptimizers();
  const UsualOptimizer& usual = optimizers[seed % optimizers.size()];
  const Optimizer& optimizer = usual.optimizer;
  Random random(seed);
  const Group group(&random, 2, 4, seed % 2 == 1, seed % 10 == 4 || seed % 10 == 7);
  const Servers servers(&random, group);
  Threads threads(1 + seed % 3);
  Trained local(usual, group.tables);
  Trained served = local;
  std::vector<UpdatedTable> updated(local.tables.size());
  size_t shard = 0;
  for (size_t t = 0; t < updated.size(); ++t) {
    updated[t].table = GradientTables(group)[t];
    for (auto& part : local.tables[t].parts) {
      updated[t].shards.push_back({part.data(), {}});
      local.PutSlots(shard++, updated[t].shards.back().slots);
    }
  }
  for (int step = 0; step < kSteps; ++step) {
    CHECK(GroupApply(optimizer, updated, group.Gradients(), kernels, &threads).kind ==
          BagFault::kNone);
  }
  PackedUpdates updates(group, servers, RandomPooling(&random, group), kernels, &threads);
  const auto shards = ShardsOf(servers, &served);
  for (int server = 0; server < servers.count; ++server) {
    RowUpdate update;
    CHECK(ReadUpdate(updates.bytes[server].get(), updates.sizes[server], shards[server], &threads,
                     &update)
              .ok());
    for (int step = 0; step < kSteps; ++step) {
      ApplyUpdate(optimizer, shards[server], update, kernels, &threads);
    }
  }
  for (size_t t = 0; t < updated.size(); ++t) {
    CHECK(local.tables[t].parts == served.tables[t].parts);
  }
  CHECK(local.slots == served.slots);
}

// Of each shard.
std::vector<int64_t> RowsSent(const PackedShards& shards) {
  std::vector<int64_t> rows;
  for (size_t t = 0; t + 1 < shards.first_shards.size(); ++t) {
    for (int s = shards.first_shards[t]; s < shards.first_shards[t + 1]; ++s) {
      rows.push_back(shards.counts[s] == kPooledByServer ? shards.num_bags[t] : shards.counts[s]);
    }
  }
  return rows;
}

// The bags of each table that servers pool, as an update sends them; of others nothing. False where
// the requests can not be of the lookups.
bool FindsBags(const Group& group, const PackedShards& shards,
               const std::vector<std::vector<int64_t>>& requests,
               std::vector<std::vector<int64_t>>* bags) {
  std::vector<SentRequest> sent;
  for (const std::vector<int64_t>& request : requests) {
    sent.push_back(SentRequest{request.data(), static_cast<int64_t>(request.size())});
  }
  const std::vector<PooledGradient> lookups = group.Gradients();
  std::vector<SentBags> found;
  if (!FindSentBags(sent, shards.first_shards, shards.servers, lookups, &found).ok()) return false;
  bags->clear();
  for (size_t t = 0; t < found.size(); ++t) {
    bags->emplace_back(found[t].num_words);
    std::vector<const PooledGradient*> of_table;
    for (const PooledGradient& lookup : lookups) {
      if (lookup.table == static_cast<int>(t)) of_table.push_back(&lookup);
    }
    if (found[t].words != nullptr) {
      CopySentBags(found[t], of_table, bags->back().data());
    } else {
      bags->back().clear();
    }
  }
  return true;
}

void BagsOfARequestAreThoseOfAnUpdate(const RowKernels& kernels, int seed) {
  Random random(seed);
  const Group group(&random, 3, 5, seed % 2 == 1, seed % 10 == 4 || seed % 10 == 7);
  Threads threads(2);
  const PackedLookup packed(&random, group, kernels, &threads);
  const PackedShards& shards = packed.servers.shards;
  std::vector<std::vector<int64_t>> expected;
  for (size_t t = 0; t < group.tables.size(); ++t) {
    const BagsOfTable bags(group, static_cast<int>(t));
    expected.push_back(packed.pools[t] ? bags.words : std::vector<int64_t>());
  }
  std::vector<std::vector<int64_t>> bags;
  CHECK(FindsBags(group, shards, packed.requests, &bags) && bags == expected);
  for (size_t server = 0; server < packed.requests.size(); ++server) {
    std::vector<std::vector<int64_t>> longer = packed.requests;
    longer[server].push_back(0);
    CHECK(!FindsBags(group, shards, longer, &bags));
  }
}

// Any bytes are accepted or refused; a sanitizer would notice an access outside the memory.
void MalformedMessagesAreRefused(const RowKernels& kernels, int seed) {
  Random random(seed);
  const Group group(&random, 2, 3, false, false);
  Threads threads(2);
  PackedLookup packed(&random, group, kernels, &threads);
  PackedUpdates updates(group, packed.servers, packed.pools, kernels, &threads);
  const UsualOptimizer usual = UsualOptimizers()[0];
  Trained trained(usual, group.tables);
  const auto shards = ShardsOf(packed.servers, &trained);
  const int64_t strange[] = {-1, 0, 1, 7, int64_t{1} << 32, INT64_MAX, INT64_MIN, INT64_MAX / 8};
  for (int round = 0; round < 30; ++round) {
    const int server = static_cast<int>(Below(&random, packed.servers.count));
    std::vector<ServedShard> served;
    for (const UpdatedShard& one : shards[server]) {
      served.push_back(ServedShard{one.table, one.rows, one.num_rows, one.dim});
    }
    std::vector<int64_t> request = packed.requests[server];
    if (!request.empty()) {
      int64_t& word = request[Below(&random, request.size())];
      word =
          Below(&random, 2) ? strange[Below(&random, 8)] : word ^ int64_t{1} << Below(&random, 64);
    }
    request.resize(Below(&random, 3) ? request.size() : Below(&random, request.size() + 3));
    request.shrink_to_fit();
    std::vector<std::vector<int64_t>> requests = packed.requests;
    requests[server] = request;
    std::vector<std::vector<int64_t>> bags;
    FindsBags(group, packed.servers.shards, requests, &bags);
    std::vector<RequestedRows> asked;
    if (ReadRequest(request.data(), request.size(), served, &asked).ok()) {
      int64_t size = 0;
      for (size_t i = 0; i < asked.size(); ++i) size += asked[i].count * served[i].dim;
      std::vector<float> rows(size);
      GatherRows(served, asked, RowType::kFloat, kernels, &threads,
                 reinterpret_cast<char*>(rows.data()))
          .IgnoreError();
    }
    int64_t size = updates.sizes[server];
    if (Below(&random, 3) == 0) size = Below(&random, size + 9);
    std::unique_ptr<char[]> bytes(new char[size]());
    std::memcpy(bytes.get(), updates.bytes[server].get(), std::min(size, updates.sizes[server]));
    if (size >= 8) {
      const int64_t word = Below(&random, 2) ? Below(&random, size / 8)
                                             : Below(&random, std::min<int64_t>(size / 8, 4));
      std::memcpy(bytes.get() + 8 * word, &strange[Below(&random, 8)], 8);
    }
    RowUpdate update;
    if (ReadUpdate(bytes.get(), size, shards[server], &threads, &update).ok()) {
      ApplyUpdate(usual.optimizer, shards[server], update, kernels, &threads);
    }
    std::vector<int64_t> counts = packed.counts;
    counts[Below(&random, counts.size())] += strange[Below(&random, 4)];
    PackedShards placed = packed.servers.shards;
    placed.counts = counts.data();
    packed.servers.shards.counts = packed.counts.data();
    std::vector<SentRows> sent;
    for (const std::vector<float>& one : packed.rows) {
      sent.push_back(
          SentRows{reinterpret_cast<const char*>(one.data()), static_cast<int64_t>(one.size())});
    }
    std::vector<Table> tables;
    CHECK(PackedTables(placed, sent, RowType::kFloat, &tables).ok() ==
          (RowsSent(placed) == RowsSent(packed.servers.shards)));
  }
}

void FaultsAreFound() {
  Random random(1);
  const OwnedTable table(&random, 10, 4, 2, Partition::kMod);
  const std::vector<GradientTable> tables = {{table.map, 4, RowType::kFloat}};
  const std::vector<int32_t> ids = {1, 2, 10, 3};
  std::vector<PooledGradient> lookups(1);
  lookups[0].bags.ids = ids.data();
  lookups[0].bags.wide_ids = false;
  lookups[0].bags.num_ids = 4;
  lookups[0].bags.num_bags = 4;
  Sequential sequential;
  const std::vector<KeyTable> none_by_key(tables.size());
  const BagFault fault = UniqueIds(tables, none_by_key, lookups, &sequential).Find();
  CHECK(fault.kind == BagFault::kIdOutOfRange && fault.bag == 2 && fault.id == 10);
  const BagFault same = BagPacking().Read(lookups[0].bags, 10);
  CHECK(same.kind == BagFault::kIdOutOfRange && same.bag == 2 && same.id == 10);
}

// Servers pool what is then less to send, once rows have been counted, and never rows they lack.
void ServersPoolWhereThatIsLess() {
  TableTraffic many_in_a_bag;
  many_in_a_bag.can_pool = true;
  many_in_a_bag.num_ids = 1000;
  many_in_a_bag.num_bags = 100;
  many_in_a_bag.row_bytes = 32;
  many_in_a_bag.bytes_per_id = 2;
  TableTraffic one_in_a_bag = many_in_a_bag;
  one_in_a_bag.num_bags = 1000;
  TableTraffic spread = many_in_a_bag;
  spread.can_pool = false;
  const std::vector<TableTraffic> tables = {many_in_a_bag, one_in_a_bag, spread, many_in_a_bag};
  ServerPooling pooling;
  CHECK(pooling.Choose(tables).pools == std::vector<bool>(4, false));
  for (int t = 0; t < 3; ++t) pooling.Learn(t, tables[t], 600);
  pooling.Learn(3, tables[3], 50);  // the same few rows in all bags
  CHECK(pooling.Choose(tables).pools == (std::vector<bool>{true, false, false, false}));
  int counts = 0;
  for (int call = 0; call < 640; ++call) counts += !pooling.Choose(tables).pools[0];
  CHECK(counts == 10);
  ServerPooling always(ServerPooling::Mode::kAlways);
  CHECK(always.Choose(tables).pools == (std::vector<bool>{true, true, false, true}));
  CHECK(ServerPooling(ServerPooling::Mode::kNever).Choose(tables).pools ==
        std::vector<bool>(4, false));
}

// All rows travel unless that is clearly more, and rows are counted all the same.
void ServersPoolAllTablesOrNone() {
  TableTraffic bags;
  bags.can_pool = true;
  bags.num_ids = 1000;
  bags.num_bags = 100;
  bags.row_bytes = 31;
  bags.bytes_per_id = 1;  // 4200 bytes of bags, 39 of each row
  TableTraffic one_each = bags;
  one_each.num_bags = 1000;
  one_each.row_bytes = 7;  // 9000 bytes of bags, 15 of each row
  const std::vector<TableTraffic> tables = {bags, one_each};
  ServerPooling pooling(ServerPooling::Mode::kTogether);
  const std::vector<bool> none(2, false), first = {true, false};
  CHECK(pooling.Choose(tables).counts && pooling.Choose(tables).pools == none);
  const auto learned = [&](int64_t rows, int64_t other_rows) {
    pooling.Learn(0, bags, rows);
    pooling.Learn(1, one_each, other_rows);
    return pooling.Choose(tables).pools;
  };
  CHECK(learned(130, 10) == none);   // 5220 bytes, or 4350
  CHECK(learned(200, 900) == none);  // the other table makes for most bytes
  CHECK(learned(200, 10) == first);
  CHECK(learned(130, 10) == first);  // is not worth a change
  CHECK(learned(110, 10) == none);
  CHECK(learned(110, 1000) == none);  // bags are less for the numbers of rows alone
  CHECK(learned(130, 10) == none);
  CHECK(learned(200, 10) == first);
  int counts = 0;
  for (int call = 0; call < 640; ++call) {
    const ServerPooling::Choice choice = pooling.Choose(tables);
    CHECK(choice.pools == first);
    counts += choice.counts;
  }
  CHECK(counts == 10);
}

void RunAll(int num_seeds) {
  FaultsAreFound();
  ServersPoolWhereThatIsLess();
  ServersPoolAllTablesOrNone();
  for (const RowKernels* const* kernels = RunnableRowKernels(); *kernels != nullptr; ++kernels) {
    for (int seed = 0; seed < num_seeds; ++seed) {
      LooksUpAsLocalTablesDo(**kernels, seed);
      UpdatesAsLocalTablesAre(**kernels, seed);
      BagsOfARequestAreThoseOfAnUpdate(**kernels, seed);
      MalformedMessagesAreRefused(**kernels, seed);
    }
  }
}

}  // namespace
}  // namespace graph_opt

// Argument: how many random groups there are for each instruction set (default 60).
int main(int argc, char** argv) { graph_opt::RunAll(argc > 1 ? std::atoi(argv[1]) : 60); }
