#include "exchange/sent_row_gradients.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
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

// Copies the gradients of the bags of tables whose owner pools, lookup after lookup.
void CopyBags(const PackedShards& shards, const std::vector<PooledGradient>& lookups,
              int64_t element_bytes, const std::vector<char*>& places, Parallel* parallel) {
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
  });
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
                                 const std::vector<PooledGradient>& lookups, RowType type,
                                 const RowKernels& kernels, Parallel* parallel, char* gradients) {
  const std::vector<char*> places = PlacesOf(shards, num_ranks, ByteSize(type), gradients);
  const int num_tables = static_cast<int>(shards.widths.size());
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
  for (const PooledGradient& lookup : lookups) {
    if (!IsPooled(shards, lookup.table)) by_rows.push_back(lookup);
  }
  GroupGradient gradient(tables, by_rows, kernels, parallel);
  const BagFault fault = gradient.Sort();
  if (fault.kind != BagFault::kNone) return FaultOf(fault, by_rows, names);
  ScratchArray<int64_t> numbers(num_rows);  // that the rows are numbered by, which is known
  int64_t* next = numbers.data();
  std::vector<std::vector<GroupGradient::ShardSums>> sums(num_tables);
  for (int t = 0; t < num_tables; ++t) {
    for (int s = shards.first_shards[t]; s < shards.first_shards[t + 1]; ++s) {
      const int64_t rows = gradient.NumRows(t, s - shards.first_shards[t]);
      if (!IsPooled(shards, t) && rows != shards.counts[s]) {
        return absl::InvalidArgumentError(absl::StrCat("inverse names ", rows, " of the ",
                                                       shards.counts[s], " rows sent of table '",
                                                       names[t], "'"));
      }
      sums[t].push_back(GroupGradient::ShardSums{next, places[s]});
      next += rows;
    }
  }
  gradient.SumRows(sums);
  CopyBags(shards, lookups, ByteSize(type), places, parallel);
  return absl::OkStatus();
}

}  // namespace graph_opt
