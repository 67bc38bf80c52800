#include "exchange/sent_row_gradients.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exchange/no_gradient.h"
#include "lookup/group_gradient.h"
#include "scratch/scratch_array.h"

namespace graph_opt {
namespace {

bool IsPooled(const PackedShards& shards, int table) {
  return shards.counts[shards.first_shards[table]] == kPooledByServer;
}

int64_t RowsSent(const PackedShards& shards, int table, int shard) {
  return shards.counts[shard] == kPooledByServer ? shards.num_bags[table] : shards.counts[shard];
}

// Where the gradients of each shard go: rank after rank, and on each the shards in their order.
std::vector<char*> PlacesOf(const PackedShards& shards, int num_ranks, int64_t element_bytes,
                            char* gradients) {
  std::vector<int64_t> bytes_of_rank(num_ranks + 1, 0);
  std::vector<int64_t> bytes;
  for (size_t t = 0; t < shards.widths.size(); ++t) {
    for (int s = shards.first_shards[t]; s < shards.first_shards[t + 1]; ++s) {
      bytes.push_back(RowsSent(shards, static_cast<int>(t), s) * shards.widths[t] * element_bytes);
      bytes_of_rank[shards.servers[s] + 1] += bytes.back();
    }
  }
  for (int rank = 0; rank < num_ranks; ++rank) bytes_of_rank[rank + 1] += bytes_of_rank[rank];
  std::vector<char*> places;
  for (size_t s = 0; s < bytes.size(); ++s) {
    int64_t& at = bytes_of_rank[shards.servers[s]];
    places.push_back(gradients + at);
    at += bytes[s];
  }
  return places;
}

// Copies the gradients of the bags of tables whose owner pools, lookup after lookup. Of a lookup
// that is not counted, the first one is marked.
void CopyBags(const PackedShards& shards, const std::vector<PooledGradient>& lookups,
              const std::vector<bool>& counted, RowType type, const std::vector<char*>& places,
              Parallel* parallel) {
  const int64_t element_bytes = ByteSize(type);
  std::vector<char*> next(shards.widths.size());
  for (size_t t = 0; t < next.size(); ++t) next[t] = places[shards.first_shards[t]];
  std::vector<char*> to;
  for (const PooledGradient& lookup : lookups) {
    to.push_back(next[lookup.table]);
    next[lookup.table] += lookup.bags.num_bags * shards.widths[lookup.table] * element_bytes;
  }
  parallel->Run(static_cast<int64_t>(lookups.size()), [&](int64_t i) {
    const PooledGradient& lookup = lookups[i];
    if (!IsPooled(shards, lookup.table)) return;
    const int64_t row_bytes = shards.widths[lookup.table] * element_bytes;
    if (row_bytes == 0) return;
    const int64_t stride_bytes = lookup.stride * element_bytes;
    const char* const from = static_cast<const char*>(lookup.gradients);
    for (int64_t bag = 0; bag < lookup.bags.num_bags; ++bag) {
      std::memcpy(to[i] + bag * row_bytes, from + bag * stride_bytes, row_bytes);
    }
    if (!counted[i] && lookup.bags.num_bags > 0) MarkNoGradient(type, to[i]);
  });
}

// Sums of some rows of a shard.
struct SomeRows {
  ScratchArray<int64_t> numbers;
  ScratchArray<char> values;
};

// Writes the gradients of some rows of a shard to their places, and marks the others.
void Spread(const SomeRows& some, int64_t num_some, int64_t num_rows, int64_t dim, RowType type,
            char* place) {
  const int64_t row_bytes = dim * ByteSize(type);
  if (row_bytes == 0) return;
  int64_t next = 0;
  for (int64_t row = 0; row < num_rows; ++row) {
    if (next < num_some && some.numbers.data()[next] == row) {
      std::memcpy(place + row * row_bytes, some.values.data() + next * row_bytes, row_bytes);
      ++next;
    } else {
      std::memset(place + row * row_bytes, 0, row_bytes);
      MarkNoGradient(type, place + row * row_bytes);
    }
  }
}

// Of each table, whether all its lookups are counted.
std::vector<bool> CountedTables(const std::vector<PooledGradient>& lookups,
                                const std::vector<bool>& counted, int num_tables) {
  std::vector<bool> all(num_tables, true);
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (!counted[i]) all[lookups[i].table] = false;
  }
  return all;
}

absl::Status FaultOf(const BagFault& fault, const std::vector<PooledGradient>& lookups,
                     const std::vector<std::string>& names) {
  const std::string& name = names[lookups[fault.lookup].table];
  if (fault.kind == BagFault::kTooMany) {
    return absl::InvalidArgumentError(
        absl::StrCat("too many ids for one step in table '", name, "'"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("inverse and counts are not of the same request for table '", name, "'"));
}

}  // namespace

absl::Status ElementsSent(const PackedShards& shards, int num_ranks,
                          std::vector<int64_t>* elements) {
  elements->assign(num_ranks, 0);
  for (size_t t = 0; t < shards.widths.size(); ++t) {
    for (int s = shards.first_shards[t]; s < shards.first_shards[t + 1]; ++s) {
      const int64_t rows = RowsSent(shards, static_cast<int>(t), s);
      if (rows < 0 || shards.widths[t] < 0 || rows > (int64_t{1} << 40)) {
        return absl::InvalidArgumentError(absl::StrCat("counts has ", shards.counts[s]));
      }
      (*elements)[shards.servers[s]] += rows * shards.widths[t];
    }
  }
  return absl::OkStatus();
}

absl::Status GradientsOfSentRows(const PackedShards& shards, int num_ranks,
                                 const std::vector<std::string>& names,
                                 const std::vector<PooledGradient>& lookups,
                                 const std::vector<bool>& counted, RowType type,
                                 const RowKernels& kernels, Parallel* parallel, char* gradients) {
  const std::vector<char*> places = PlacesOf(shards, num_ranks, ByteSize(type), gradients);
  const int num_tables = static_cast<int>(shards.widths.size());
  const std::vector<bool> all_counted = CountedTables(lookups, counted, num_tables);
  std::vector<GradientTable> tables(num_tables);
  int64_t num_rows = 0;
  for (int t = 0; t < num_tables; ++t) {
    std::vector<int64_t> rows;
    for (int s = shards.first_shards[t]; s < shards.first_shards[t + 1]; ++s) {
      rows.push_back(IsPooled(shards, t) ? 0 : shards.counts[s]);
      num_rows += rows.back();
    }
    tables[t].shards = TableShards(Partition::kKeys, std::move(rows));
    tables[t].dim = shards.widths[t];
    tables[t].type = type;
  }
  std::vector<PooledGradient> by_rows;
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (counted[i] && !IsPooled(shards, lookups[i].table)) by_rows.push_back(lookups[i]);
  }
  GroupGradient gradient(tables, by_rows, kernels, parallel);
  const BagFault fault = gradient.Sort();
  if (fault.kind != BagFault::kNone) return FaultOf(fault, by_rows, names);
  ScratchArray<int64_t> numbers(num_rows);  // that the rows are numbered by, which is known
  int64_t* next = numbers.data();
  std::vector<SomeRows> some(places.size());  // of each shard
  std::vector<std::vector<GroupGradient::ShardSums>> sums(num_tables);
  for (int t = 0; t < num_tables; ++t) {
    for (int s = shards.first_shards[t]; s < shards.first_shards[t + 1]; ++s) {
      const int64_t rows = gradient.NumRows(t, s - shards.first_shards[t]);
      if (!IsPooled(shards, t) && rows != shards.counts[s] && all_counted[t]) {
        return absl::InvalidArgumentError(absl::StrCat("inverse names ", rows, " of the ",
                                                       shards.counts[s], " rows sent of table '",
                                                       names[t], "'"));
      }
      if (all_counted[t] || IsPooled(shards, t)) {
        sums[t].push_back(GroupGradient::ShardSums{next, places[s]});
        next += rows;
      } else {
        some[s].numbers.Reserve(rows);
        some[s].values.Reserve(rows * shards.widths[t] * ByteSize(type));
        sums[t].push_back(GroupGradient::ShardSums{some[s].numbers.data(), some[s].values.data()});
      }
    }
  }
  gradient.SumRows(sums);
  for (int t = 0; t < num_tables; ++t) {
    if (all_counted[t] || IsPooled(shards, t)) continue;
    for (int s = shards.first_shards[t]; s < shards.first_shards[t + 1]; ++s) {
      Spread(some[s], gradient.NumRows(t, s - shards.first_shards[t]), shards.counts[s],
             shards.widths[t], type, places[s]);
    }
  }
  CopyBags(shards, lookups, counted, type, places, parallel);
  return absl::OkStatus();
}

}  // namespace graph_opt
