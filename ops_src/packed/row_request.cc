#include "packed/row_request.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "packed/shard_blocks.h"

namespace graph_opt {
namespace {

std::string ShardText(const std::vector<ServedShard>& shards, size_t shard) {
  return absl::StrCat("shard ", shard, " of ", shards.size(), " (table '", shards[shard].table,
                      "')");
}

absl::Status NoSuchRow(int64_t row, const std::vector<ServedShard>& shards, size_t shard) {
  return absl::InvalidArgumentError(absl::StrCat("row ", row, " is asked of ",
                                                 ShardText(shards, shard), ", which has ",
                                                 shards[shard].num_rows, " rows"));
}

constexpr int64_t kRowsAtOnce = 1024;

// Copies the rows of a block through the row kernels, which fetch ahead: bags of one row each.
// Returns the place of the first row that the shard does not have, or the block's end.
int64_t CopyBlock(const ServedShard& shard, const int64_t* rows, const ShardBlock& block,
                  RowType type, const RowKernels& kernels, char* packed) {
  const int64_t row_bytes = shard.dim * ByteSize(type);
  const int64_t stride_bytes = (shard.stride == 0 ? shard.dim : shard.stride) * ByteSize(type);
  const uint64_t num_rows = static_cast<uint64_t>(shard.num_rows);
  const void* found[kRowsAtOnce];
  int64_t offsets[kRowsAtOnce + 1];
  std::iota(offsets, offsets + std::min(kRowsAtOnce, block.end - block.begin) + 1, int64_t{0});
  for (int64_t at = block.begin; at < block.end; at += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, block.end - at);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = rows[at + i];
      if (static_cast<uint64_t>(row) >= num_rows) return at + i;
      found[i] = static_cast<const char*>(shard.data) + row * stride_bytes;
    }
    PoolBlock copied = {};
    copied.rows = found;
    copied.offsets = offsets;
    copied.num_bags = count;
    copied.dim = shard.dim;
    copied.type = type;
    copied.combiner = Combiner::kSum;
    copied.pooled = packed + at * row_bytes;
    copied.pooled_stride = shard.dim;
    copied.pooled_type = type;
    kernels.pool(copied);
  }
  return block.end;
}

// Finds the bags of `lookups` lookups, which fill the words.
absl::Status FindAllPackedBags(int64_t lookups, const int64_t* words, const int64_t* end,
                               RequestedRows* requested) {
  requested->count = 0;
  for (int64_t i = 0; i < lookups; ++i) {
    PackedBags packed;
    const absl::Status found = FindPackedBags(&words, end, &packed);
    if (!found.ok()) return found;
    requested->bags.push_back(packed);
    requested->count += packed.num_bags;
  }
  return words == end ? absl::OkStatus() : absl::InvalidArgumentError("more bags than lookups");
}

absl::Status CopyRows(const std::vector<ServedShard>& shards,
                      const std::vector<RequestedRows>& requested, RowType type,
                      const RowKernels& kernels, Parallel* parallel,
                      const std::vector<char*>& packed_shards) {
  std::vector<int64_t> counts;
  std::vector<int64_t> row_bytes;
  for (size_t i = 0; i < shards.size(); ++i) {
    counts.push_back(requested[i].rows == nullptr ? 0 : requested[i].count);
    row_bytes.push_back(shards[i].dim * ByteSize(type));
  }
  const std::vector<ShardBlock> blocks = BlocksOfShards(counts, row_bytes, parallel->num_threads());
  std::mutex mutex;
  std::pair<int64_t, int64_t> bad(static_cast<int64_t>(shards.size()), 0);  // shard and place
  parallel->Run(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
    const ShardBlock& block = blocks[i];
    const int64_t stop = CopyBlock(shards[block.shard], requested[block.shard].rows, block, type,
                                   kernels, packed_shards[block.shard]);
    if (stop == block.end) return;
    std::lock_guard<std::mutex> lock(mutex);
    bad = std::min(bad, std::make_pair(block.shard, stop));
  });
  if (bad.first == static_cast<int64_t>(shards.size())) return absl::OkStatus();
  return NoSuchRow(requested[bad.first].rows[bad.second], shards, bad.first);
}

absl::Status PoolBags(const std::vector<ServedShard>& shards,
                      const std::vector<RequestedRows>& requested, RowType type,
                      const RowKernels& kernels, Parallel* parallel,
                      const std::vector<char*>& packed_shards) {
  std::vector<Table> tables(shards.size());
  std::vector<Lookup> lookups;
  std::vector<const PackedBags*> packed;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (requested[i].bags.empty()) continue;
    tables[i].shards = TableShards(Partition::kMod, {shards[i].num_rows});
    tables[i].data.push_back(shards[i].data);
    tables[i].dim = shards[i].dim;
    tables[i].type = type;
    char* pooled = packed_shards[i];
    for (const PackedBags& bags : requested[i].bags) {
      packed.push_back(&bags);
      Lookup lookup;
      lookup.table = static_cast<int>(i);
      lookup.pooled = pooled;
      lookup.pooled_stride = shards[i].dim;
      lookup.pooled_type = type;
      lookups.push_back(lookup);
      pooled += bags.num_bags * shards[i].dim * ByteSize(type);
    }
  }
  std::vector<UnpackedBags> unpacked(packed.size());
  std::atomic<bool> malformed(false);
  parallel->Run(static_cast<int64_t>(packed.size()), [&](int64_t i) {
    if (!Unpack(*packed[i], &unpacked[i]).ok()) malformed = true;
    lookups[i].bags = unpacked[i].bags;
    lookups[i].bags.filled_id = -1;  // of gradients only
  });
  if (malformed) {
    return absl::InvalidArgumentError("the request has bags of other numbers of ids than it says");
  }
  const BagFault fault = GroupLookup(tables, lookups, kernels, parallel);
  if (fault.kind == BagFault::kNone) return absl::OkStatus();
  return NoSuchRow(fault.id, shards, lookups[fault.lookup].table);
}

}  // namespace

int64_t NumReadRows(const RequestedRows& requested) {
  int64_t rows = requested.bags.empty() ? requested.count : 0;
  for (const PackedBags& bags : requested.bags) rows += bags.num_ids;
  return rows;
}

absl::Status ReadRequest(const int64_t* request, int64_t size,
                         const std::vector<ServedShard>& shards, std::vector<RequestedRows>* rows) {
  rows->clear();
  const int64_t* at = request;
  const int64_t* const end = request + size;
  for (size_t i = 0; i < shards.size(); ++i) {
    const int64_t left = end - at - kRequestHeaderWords;
    if (left < 0 || at[0] < kByKey || at[1] < 0 || at[1] > left) {
      return absl::InvalidArgumentError(
          absl::StrCat("the request has ", size, " numbers and ends within ", ShardText(shards, i),
                       "; need a number of rows and the rows for each shard"));
    }
    const int64_t lookups = at[0];
    const int64_t* words = at + kRequestHeaderWords;
    at = words + at[1];
    if (!shards[i].either && (lookups == kByKey) != shards[i].by_key) {
      return absl::InvalidArgumentError(
          absl::StrCat("the request has ", shards[i].by_key ? "rows" : "keys", " of ",
                       ShardText(shards, i), ", which goes by ", shards[i].by_key ? "key" : "row"));
    }
    rows->push_back(RequestedRows{lookups == 0 ? words : nullptr, at - words, {}, {}});
    if (lookups == kByKey) {
      RequestedKeys& keys = rows->back().keys;
      if (!FindRequestedKeys(words, at - words, &keys).ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the request has malformed keys of ", ShardText(shards, i)));
      }
      rows->back().count = keys.count;
    }
    if (lookups > 0 && !FindAllPackedBags(lookups, words, at, &rows->back()).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the request has malformed bags of ", ShardText(shards, i)));
    }
  }
  if (at == end) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the request has ", size, " numbers, ", end - at,
                                                 " more than its ", shards.size(), " shards need"));
}

absl::Status GatherRows(const std::vector<ServedShard>& shards,
                        const std::vector<RequestedRows>& requested, RowType type,
                        const RowKernels& kernels, Parallel* parallel, char* packed) {
  std::vector<char*> packed_shards;
  for (size_t i = 0; i < shards.size(); ++i) {
    packed_shards.push_back(packed);
    packed += requested[i].count * shards[i].dim * ByteSize(type);
  }
  const absl::Status copied = CopyRows(shards, requested, type, kernels, parallel, packed_shards);
  if (!copied.ok()) return copied;
  return PoolBags(shards, requested, type, kernels, parallel, packed_shards);
}

absl::Status PackedTables(const PackedShards& shards, const std::vector<SentRows>& sent,
                          RowType type, std::vector<Table>* tables) {
  std::vector<int64_t> taken(sent.size(), 0);
  tables->assign(shards.widths.size(), Table());
  for (size_t t = 0; t < shards.widths.size(); ++t) {
    Table& table = (*tables)[t];
    table.dim = shards.widths[t];
    table.type = type;
    std::vector<int64_t> rows;
    for (int shard = shards.first_shards[t]; shard < shards.first_shards[t + 1]; ++shard) {
      const int server = shards.servers[shard];
      const bool pooled = shards.counts[shard] == kPooledByServer;
      const int64_t count = pooled ? shards.num_bags[t] : shards.counts[shard];
      const int64_t left = sent[server].size - taken[server];
      if (count < 0 || (table.dim > 0 && count > left / table.dim)) {
        return absl::InvalidArgumentError(
            absl::StrCat(shards.server, " ", server, " sent ", sent[server].size,
                         " numbers, fewer than the rows that were asked for"));
      }
      const char* data = sent[server].data + taken[server] * ByteSize(type);
      taken[server] += count * table.dim;
      if (shard > shards.first_shards[t] && server == shards.servers[shard - 1]) {
        rows.back() += count;  // beside the rows of the shard before
      } else {
        rows.push_back(count);
        table.data.push_back(data);
      }
    }
    table.shards = TableShards(Partition::kKeys, std::move(rows));
  }
  for (size_t server = 0; server < sent.size(); ++server) {
    if (taken[server] == sent[server].size) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        shards.server, " ", server, " sent ", sent[server].size, " numbers, need ", taken[server]));
  }
  return absl::OkStatus();
}

}  // namespace graph_opt
