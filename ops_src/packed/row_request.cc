#include "packed/row_request.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "packed/shard_blocks.h"

namespace graph_opt {
namespace {

std::string ShardText(const std::vector<ServedShard>& shards, size_t shard) {
  return "shard " + std::to_string(shard) + " of " + std::to_string(shards.size()) + " (table '" +
         shards[shard].table + "')";
}

// Copies rows through the row kernels, which fetch ahead: bags of one row each.
class RowCopies {
 public:
  RowCopies() : rows_(kRowsAtOnce), offsets_(kRowsAtOnce + 1) {
    for (int64_t i = 0; i <= kRowsAtOnce; ++i) offsets_[i] = i;
  }

  // Returns the place of the first row that the shard does not have, or `end`.
  int64_t Run(const ServedShard& shard, const int64_t* rows, int64_t begin, int64_t end,
              RowType type, const RowKernels& kernels, char* packed) {
    const int64_t row_bytes = shard.dim * ByteSize(type);
    const uint64_t num_rows = static_cast<uint64_t>(shard.num_rows);
    for (int64_t at = begin; at < end; at += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, end - at);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = rows[at + i];
        if (static_cast<uint64_t>(row) >= num_rows) return at + i;
        rows_[i] = static_cast<const char*>(shard.data) + row * row_bytes;
      }
      PoolBlock block = {};
      block.rows = rows_.data();
      block.offsets = offsets_.data();
      block.num_bags = count;
      block.dim = shard.dim;
      block.type = type;
      block.combiner = Combiner::kSum;
      block.pooled = packed + at * row_bytes;
      block.pooled_stride = shard.dim;
      kernels.pool(block);
    }
    return end;
  }

 private:
  static constexpr int64_t kRowsAtOnce = 1024;

  std::vector<const void*> rows_;
  std::vector<int64_t> offsets_;
};

constexpr int64_t RowCopies::kRowsAtOnce;

}  // namespace

std::string ReadRequest(const int64_t* request, int64_t size,
                        const std::vector<ServedShard>& shards, std::vector<RequestedRows>* rows) {
  rows->clear();
  int64_t at = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const int64_t left = size - at - 1;
    if (left < 0 || request[at] < 0 || request[at] > left) {
      return "the request has " + std::to_string(size) + " numbers and ends within " +
             ShardText(shards, i) + "; need a number of rows and the rows for each shard";
    }
    rows->push_back(RequestedRows{request + at + 1, request[at]});
    at += 1 + request[at];
  }
  if (at == size) return std::string();
  return "the request has " + std::to_string(size) + " numbers, " + std::to_string(size - at) +
         " more than its " + std::to_string(shards.size()) + " shards need";
}

std::string GatherRows(const std::vector<ServedShard>& shards,
                       const std::vector<RequestedRows>& requested, RowType type,
                       const RowKernels& kernels, Parallel* parallel, char* packed) {
  std::vector<int64_t> counts;
  std::vector<int64_t> row_bytes;
  std::vector<char*> packed_shards;
  for (size_t i = 0; i < shards.size(); ++i) {
    counts.push_back(requested[i].count);
    row_bytes.push_back(shards[i].dim * ByteSize(type));
    packed_shards.push_back(packed);
    packed += counts[i] * row_bytes[i];
  }
  const std::vector<ShardBlock> blocks = BlocksOfShards(counts, row_bytes, parallel->num_threads());
  std::mutex mutex;
  std::pair<int64_t, int64_t> bad(static_cast<int64_t>(shards.size()), 0);  // shard and place
  parallel->Run(static_cast<int64_t>(blocks.size()), [&](int64_t i) {
    static thread_local RowCopies copies;
    const ShardBlock& block = blocks[i];
    const int64_t stop = copies.Run(shards[block.shard], requested[block.shard].rows, block.begin,
                                    block.end, type, kernels, packed_shards[block.shard]);
    if (stop == block.end) return;
    std::lock_guard<std::mutex> lock(mutex);
    bad = std::min(bad, std::make_pair(block.shard, stop));
  });
  if (bad.first == static_cast<int64_t>(shards.size())) return std::string();
  return "row " + std::to_string(requested[bad.first].rows[bad.second]) + " is asked of " +
         ShardText(shards, bad.first) + ", which has " +
         std::to_string(shards[bad.first].num_rows) + " rows";
}

std::string PackedTables(const PackedShards& shards, const std::vector<SentRows>& sent,
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
      const int64_t count = shards.counts[shard];
      const int64_t left = sent[server].size - taken[server];
      if (count < 0 || (table.dim > 0 && count > left / table.dim)) {
        return "server " + std::to_string(server) + " sent " + std::to_string(sent[server].size) +
               " numbers, fewer than the rows that were asked for";
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
    return "server " + std::to_string(server) + " sent " + std::to_string(sent[server].size) +
           " numbers, need " + std::to_string(taken[server]);
  }
  return std::string();
}

}  // namespace graph_opt
