// The functors of packed lookups by key without TensorFlow, on random groups: bitwise equal to
// those of local tables that have the same rows, and safe whatever a message contains.
#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "exchange/received_gradients.h"
#include "exchange/received_requests.h"
#include "exchange_requests_testing.h"
#include "keyed_groups_testing.h"

namespace graph_opt {
namespace {

std::vector<std::vector<float>> PooledLocally(const KeyedGroup& group, const RowKernels& kernels,
                                              Parallel* threads) {
  std::vector<Table> tables(group.dims.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    tables[t].shards = TableShards(Partition::kMod, {static_cast<int64_t>(group.keys[t].size())});
    tables[t].data.push_back(group.weights[t].data());
    tables[t].dim = group.dims[t];
  }
  std::vector<std::vector<float>> pooled;
  std::vector<Lookup> lookups;
  for (const PooledGradient& one : group.Lookups(false, false)) {
    pooled.emplace_back(one.bags.num_bags * one.stride);
    Lookup lookup;
    lookup.bags = one.bags;
    lookup.table = one.table;
    lookup.pooled = pooled.back().data();
    lookup.pooled_stride = one.stride;
    lookups.push_back(lookup);
  }
  CHECK(GroupLookup(tables, lookups, kernels, threads).kind == BagFault::kNone);
  return pooled;
}

// How often lookups name a key.
std::unordered_map<int64_t, int64_t> TimesNamed(const KeyedGroup& group, int table) {
  std::unordered_map<int64_t, int64_t> times;
  for (const PooledGradient& lookup : group.Lookups(true, false)) {
    if (lookup.table != table) continue;
    int64_t bag = 0;
    Bags bags = lookup.bags;
    std::vector<int64_t> places;
    PutInBagOrder(&bags, &places);
    CHECK(ForEachOccurrence(
        bags, 0, bags.num_bags, &bag,
        [&](int64_t, int64_t, int64_t key, float) {
          ++times[key];
          return true;
        },
        [](int64_t) {}));
  }
  return times;
}

bool InOrder(const KeyedGroup& group) {
  std::vector<int64_t> places;
  for (const auto& owned : group.bags) {
    Bags bags = owned->bags;
    bags.safe = true;
    if (PutInBagOrder(&bags, &places)) return false;
  }
  return true;
}

void LooksUpAsLocalTablesDo(const RowKernels& kernels, int seed) {
  Random random(seed);
  const bool safe = Below(&random, 2);
  const KeyedGroup group(&random, UsualOptimizers()[0], seed % 10 == 4, safe);
  if (!safe && !InOrder(group)) return;  // an error there
  Threads threads(1 + seed % 4);
  const std::vector<std::vector<float>> expected = PooledLocally(group, kernels, &threads);
  const NewKeys new_keys = static_cast<NewKeys>(seed % 3);
  const KeyRequests asked(group, new_keys, &threads);
  Served served(group);
  std::vector<RequestedRows> requested;
  CHECK(ReadRequest(asked.message.data(), asked.message.size(), served.served, &requested).ok());
  for (size_t i = 0, t = 0; i < requested.size(); ++i) {
    while (asked.shards.first_shards[t + 1] <= static_cast<int>(i)) ++t;
    if (!served.served[i].by_key) continue;
    const RequestedKeys& keys = requested[i].keys;
    const auto times = TimesNamed(group, static_cast<int>(t));
    std::vector<int64_t> counts(keys.count);
    keys.ReadCounts(counts.data());
    CHECK(keys.new_keys == new_keys);
    for (int64_t k = 0; k < keys.count; ++k) {
      CHECK(times.at(keys.keys[k]) == counts[k]);
      CHECK(OwnerOf(keys.keys[k], group.owners[t].owners, group.owners[t].num_shards) ==
            static_cast<int>(i) - asked.shards.first_shards[t]);
    }
  }
  served.Find(&requested);
  int64_t size = 0;
  for (size_t i = 0; i < requested.size(); ++i) size += requested[i].count * served.served[i].dim;
  std::vector<float> rows(size);
  char* const packed = reinterpret_cast<char*>(rows.data());
  CHECK(GatherRows(served.served, requested, RowType::kFloat, kernels, &threads, packed).ok());
  std::vector<Table> tables;
  CHECK(PackedTables(asked.shards, {SentRows{packed, size}}, RowType::kFloat, &tables).ok());
  std::vector<Lookup> lookups;
  std::vector<std::vector<float>> pooled;
  const int32_t* numbers = asked.inverse.data();
  const int32_t* defaults = numbers + asked.inverse.size() - group.bags.size();
  for (const PooledGradient& one : group.Lookups(true, false)) {
    pooled.emplace_back(one.bags.num_bags * one.stride);
    Lookup lookup;
    lookup.bags = one.bags;
    lookup.bags.ids = numbers;
    lookup.bags.wide_ids = false;
    if (one.bags.default_id >= 0) lookup.bags.default_id = *defaults;
    lookup.table = one.table;
    lookup.pooled = pooled.back().data();
    lookup.pooled_stride = one.stride;
    lookups.push_back(lookup);
    numbers += one.bags.num_ids;
    ++defaults;
  }
  CHECK(GroupLookup(tables, lookups, kernels, &threads).kind == BagFault::kNone);
  CHECK(pooled == expected);
}

void UpdatesAsLocalTablesAre(const RowKernels& kernels, int seed) {
  const std::vector<UsualOptimizer> optimizers = UsualOptimizers();
  const UsualOptimizer& usual = optimizers[seed % optimizers.size()];
  Random random(seed);
  const bool safe = Below(&random, 2);
  KeyedGroup group(&random, usual, seed % 10 == 4, safe);
  if (!safe && !InOrder(group)) return;
  Threads threads(1 + seed % 4);
  Served served(group);
  const KeyUpdate sent(group, kernels, &threads);
  std::vector<std::vector<float>> weights = group.weights;
  std::vector<std::vector<float>> slots = group.slots;
  const std::vector<UpdatedShard> shards = UpdatedShards(group, served, &weights, &slots);
  RowUpdate update;
  CHECK(ReadUpdate(sent.bytes.get(), sent.size, shards, &threads, &update).ok());
  served.Find(&update);
  ApplyUpdate(usual.optimizer, shards, update, kernels, &threads);
  std::vector<UpdatedTable> tables(group.dims.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    const int64_t num_rows = static_cast<int64_t>(group.keys[t].size());
    tables[t].table.shards = TableShards(Partition::kMod, {num_rows});
    tables[t].table.dim = group.dims[t];
    UpdatedTable::Shard shard = {};
    shard.rows = group.weights[t].data();
    for (int64_t slot = 0; slot < group.num_slots; ++slot) {
      shard.slots[slot] = group.slots[t * group.num_slots + slot].data();
    }
    tables[t].shards.push_back(shard);
  }
  CHECK(GroupApply(usual.optimizer, tables, group.Lookups(false, true), kernels, &threads).kind ==
        BagFault::kNone);
  // Now the group has what is expected of all keys.
  for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
    if (group.owners[t].owners == KeyOwners::kNone) {
      CHECK(weights[t] == group.weights[t]);
      continue;
    }
    const std::vector<KeyedShard> expected = group.ShardsOf(t);
    for (size_t s = 0; s < expected.size(); ++s) {
      CHECK(served.shards[t][s].memory == expected[s].memory);
    }
  }
}

// The gradients that ranks send for rows that they have asked for by key.
void SumsByKeyInTheOrderOfRanks(const RowKernels& kernels, int seed) {
  Random random(seed);
  Threads threads(1 + seed % 4);
  constexpr int64_t kDim = 5;
  const int num_ranks = static_cast<int>(1 + Below(&random, 4));
  std::vector<ServedShard> shards(2);
  shards[0] = ServedShard{"keys", nullptr, 0, kDim, 0, true};
  shards[1] = ServedShard{"rows", nullptr, 50, kDim, 0, false};
  std::vector<int64_t> message;
  std::vector<int64_t> sizes;
  std::vector<float> gradients;
  std::vector<std::vector<std::pair<int64_t, std::vector<float>>>> expected(2);
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<int64_t> request;
    for (int s = 0; s < 2; ++s) {
      std::vector<int64_t> keys;
      for (int64_t key = 0; key < 50; ++key) {
        if (Below(&random, 3) == 0) keys.push_back(s == 1 ? key : (25 - key) * 0x123456789abcd);
      }
      if (s == 0) std::shuffle(keys.begin(), keys.end(), random);
      const int64_t count = static_cast<int64_t>(keys.size());
      request.push_back(s == 0 ? kByKey : 0);
      request.push_back(s == 0 ? KeyRequestWords(count, 1) : count);
      if (s == 0) {
        request.push_back(0);
        WriteKeyHeader(count, NewKeys::kInsert, 1, &request.back());
      }
      request.insert(request.end(), keys.begin(), keys.end());
      for (int64_t key : keys) {
        auto& sums = expected[s];
        auto sum = std::find_if(sums.begin(), sums.end(),
                                [&](const auto& one) { return one.first == key; });
        if (sum == sums.end()) sum = sums.insert(sums.end(), {key, {}});
        const bool is_first = sum->second.empty();
        sum->second.resize(kDim);
        for (float& value : sum->second) {
          gradients.push_back(Number(&random) / 3);
          value = is_first ? gradients.back() : value + gradients.back();
        }
      }
    }
    sizes.push_back(AppendRequest(request, &message));
  }
  std::sort(expected[1].begin(), expected[1].end());
  ReceivedRequests requests;
  CHECK(ReadRequests(message.data(), message.size(), sizes, shards, &requests).ok());
  ReceivedGradients sums(shards, requests, reinterpret_cast<const char*>(gradients.data()),
                         RowType::kFloat, kernels, &threads);
  CHECK(sums.Sort().ok());
  std::vector<std::vector<int64_t>> indices(2);
  std::vector<std::vector<float>> values(2);
  std::vector<GroupGradient::ShardSums> to;
  for (int s = 0; s < 2; ++s) {
    CHECK(sums.NumRows(s) == static_cast<int64_t>(expected[s].size()));
    indices[s].resize(expected[s].size());
    values[s].resize(expected[s].size() * kDim);
    to.push_back(GroupGradient::ShardSums{indices[s].data(), values[s].data()});
  }
  sums.SumRows(to);
  for (int s = 0; s < 2; ++s) {
    for (size_t i = 0; i < expected[s].size(); ++i) {
      CHECK(indices[s][i] == expected[s][i].first);
      CHECK(std::equal(expected[s][i].second.begin(), expected[s][i].second.end(),
                       values[s].data() + i * kDim));
    }
  }
}

// Any numbers are accepted or refused; a sanitizer would notice an access outside the memory.
void MalformedMessagesAreRefused(const RowKernels& kernels, int seed) {
  Random random(seed);
  const UsualOptimizer usual = UsualOptimizers()[0];
  const KeyedGroup group(&random, usual, false, true);
  Threads threads(2);
  const KeyRequests asked(group, NewKeys::kInsert, &threads);
  const KeyUpdate sent(group, kernels, &threads);
  const int64_t strange[] = {-1, 0, 1, 7, int64_t{1} << 32, INT64_MAX, INT64_MIN, INT64_MAX / 8};
  for (int round = 0; round < 30; ++round) {
    Served served(group);
    std::vector<int64_t> request = asked.message;
    int64_t& word = request[Below(&random, request.size())];
    word = Below(&random, 2) ? strange[Below(&random, 8)] : word ^ int64_t{1} << Below(&random, 64);
    request.resize(Below(&random, 3) ? request.size() : Below(&random, request.size() + 3));
    request.shrink_to_fit();
    std::vector<RequestedRows> requested;
    if (ReadRequest(request.data(), request.size(), served.served, &requested).ok()) {
      served.Find(&requested);
      int64_t size = 0;
      for (size_t i = 0; i < requested.size(); ++i) {
        size += requested[i].count * served.served[i].dim;
        std::vector<int64_t> counts(requested[i].keys.count);
        requested[i].keys.ReadCounts(counts.data());
      }
      std::vector<float> rows(size);
      GatherRows(served.served, requested, RowType::kFloat, kernels, &threads,
                 reinterpret_cast<char*>(rows.data()))
          .IgnoreError();
    }
    const int64_t size = Below(&random, 3) ? sent.size : Below(&random, sent.size + 9);
    std::unique_ptr<char[]> bytes(new char[size]());
    std::memcpy(bytes.get(), sent.bytes.get(), std::min(size, sent.size));
    if (size >= 8)
      std::memcpy(bytes.get() + 8 * Below(&random, size / 8), &strange[Below(&random, 8)], 8);
    std::vector<std::vector<float>> weights = group.weights;
    std::vector<std::vector<float>> slots = group.slots;
    const std::vector<UpdatedShard> shards = UpdatedShards(group, served, &weights, &slots);
    RowUpdate update;
    if (!ReadUpdate(bytes.get(), size, shards, &threads, &update).ok()) continue;
    served.Find(&update);
    ApplyUpdate(usual.optimizer, shards, update, kernels, &threads);
  }
}

void KeysAreOwnedByRemainder() {
  CHECK(OwnerOf(-1, KeyOwners::kMod, 3) == 2);
  CHECK(OwnerOf(std::numeric_limits<int64_t>::min(), KeyOwners::kMod, 3) == 1);  // as in Python
  CHECK(OwnerOf(2001, KeyOwners::kMod1000, 7) == 1);
  CHECK(OwnerOf(-1, KeyOwners::kMod1000, 7) == 999 % 7);
  CHECK(OwnerOf(-5, KeyOwners::kMod1000, 1) == 0);
}

}  // namespace
}  // namespace graph_opt

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 300;
  graph_opt::KeysAreOwnedByRemainder();
  for (int seed = 0; seed < seeds; ++seed) {
    const graph_opt::RowKernels* const* kernels = graph_opt::RunnableRowKernels();
    int count = 0;
    while (kernels[count] != nullptr) ++count;
    const graph_opt::RowKernels& some = *kernels[seed % count];
    graph_opt::LooksUpAsLocalTablesDo(some, seed);
    graph_opt::UpdatesAsLocalTablesAre(some, seed);
    graph_opt::SumsByKeyInTheOrderOfRanks(some, seed);
    graph_opt::MalformedMessagesAreRefused(some, seed);
  }
  return 0;
}
