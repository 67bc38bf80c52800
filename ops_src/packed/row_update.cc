#include "packed/row_update.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "packed/shard_blocks.h"

namespace graph_opt {
namespace {

constexpr int64_t kHeaderBytes = 2 * sizeof(int64_t);  // of one shard
constexpr int kPlaceBits = 10;                         // rows updated by one call of a kernel

std::string ShardText(const std::vector<UpdatedShard>& shards, size_t shard) {
  return "shard " + std::to_string(shard) + " of " + std::to_string(shards.size()) + " (table '" +
         shards[shard].table + "')";
}

std::vector<ShardBlock> BlocksOf(const std::vector<UpdateBlock>& blocks, int num_threads) {
  std::vector<int64_t> counts;
  std::vector<int64_t> row_bytes;
  for (const UpdateBlock& block : blocks) {
    counts.push_back(block.count);
    row_bytes.push_back(block.width * static_cast<int64_t>(sizeof(float)));
  }
  return BlocksOfShards(counts, row_bytes, num_threads);
}

void Place(char* bytes, std::vector<UpdateBlock>* blocks) {
  bytes += kHeaderBytes * static_cast<int64_t>(blocks->size());
  for (UpdateBlock& block : *blocks) {
    block.rows = reinterpret_cast<int64_t*>(bytes);
    bytes += block.count * sizeof(int64_t);
  }
  for (UpdateBlock& block : *blocks) {
    block.values = reinterpret_cast<float*>(bytes);
    bytes += block.count * block.width * sizeof(float);
  }
}

// The place of the first row of the block that is not above the one before or not in the shard, or
// the block's end.
int64_t FirstBadRow(const UpdateBlock& update, const ShardBlock& block, int64_t num_rows) {
  int64_t last = block.begin == 0 ? -1 : update.rows[block.begin - 1];
  for (int64_t i = block.begin; i < block.end; ++i) {
    const int64_t row = update.rows[i];
    if (row <= last || row >= num_rows) return i;
    last = row;
  }
  return block.end;
}

}  // namespace

int64_t UpdateBytes(const std::vector<UpdateBlock>& blocks) {
  int64_t bytes = kHeaderBytes * static_cast<int64_t>(blocks.size());
  for (const UpdateBlock& block : blocks) {
    bytes += block.count * static_cast<int64_t>(sizeof(int64_t) + block.width * sizeof(float));
  }
  return bytes;
}

void LayOutUpdate(char* bytes, std::vector<UpdateBlock>* blocks) {
  int64_t* header = reinterpret_cast<int64_t*>(bytes);
  for (const UpdateBlock& block : *blocks) {
    *header++ = block.count;
    *header++ = block.width;
  }
  Place(bytes, blocks);
}

std::string ReadUpdate(char* bytes, int64_t size, const std::vector<UpdatedShard>& shards,
                       Parallel* parallel, std::vector<UpdateBlock>* blocks) {
  const int64_t header_bytes = kHeaderBytes * static_cast<int64_t>(shards.size());
  if (size < header_bytes) {
    return "the update has " + std::to_string(size) + " bytes, fewer than the counts of its " +
           std::to_string(shards.size()) + " shards";
  }
  const int64_t* header = reinterpret_cast<const int64_t*>(bytes);
  int64_t left = size - header_bytes;
  blocks->clear();
  for (size_t i = 0; i < shards.size(); ++i) {
    const UpdateBlock block = {header[2 * i], header[2 * i + 1], nullptr, nullptr};
    if (block.width != shards[i].dim) {
      return ShardText(shards, i) + " is " + std::to_string(shards[i].dim) +
             " wide, the update has rows of " + std::to_string(block.width);
    }
    const int64_t row_bytes = sizeof(int64_t) + block.width * sizeof(float);
    if (block.count < 0 || block.count > left / row_bytes) {
      return "the update has " + std::to_string(size) + " bytes, which can not be " +
             std::to_string(block.count) + " rows of " + ShardText(shards, i);
    }
    left -= block.count * row_bytes;
    blocks->push_back(block);
  }
  if (left != 0) {
    return "the update has " + std::to_string(size) + " bytes, " + std::to_string(left) +
           " more than its rows need";
  }
  Place(bytes, blocks);
  const std::vector<ShardBlock> pieces = BlocksOf(*blocks, parallel->num_threads());
  std::mutex mutex;
  std::pair<int64_t, int64_t> bad(static_cast<int64_t>(shards.size()), 0);  // shard and place
  parallel->Run(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const int64_t shard = pieces[i].shard;
    const int64_t stop = FirstBadRow((*blocks)[shard], pieces[i], shards[shard].num_rows);
    if (stop == pieces[i].end) return;
    std::lock_guard<std::mutex> lock(mutex);
    bad = std::min(bad, std::make_pair(shard, stop));
  });
  if (bad.first == static_cast<int64_t>(shards.size())) return std::string();
  return "the update of " + ShardText(shards, bad.first) + " names row " +
         std::to_string((*blocks)[bad.first].rows[bad.second]) + " at " +
         std::to_string(bad.second) + "; need ascending rows, each once, below " +
         std::to_string(shards[bad.first].num_rows);
}

void ApplyUpdate(UpdateRule rule, const UpdateNumbers& numbers,
                 const std::vector<UpdatedShard>& shards, const std::vector<UpdateBlock>& blocks,
                 const RowKernels& kernels, Parallel* parallel) {
  const std::vector<ShardBlock> pieces = BlocksOf(blocks, parallel->num_threads());
  parallel->Run(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const UpdatedShard& shard = shards[pieces[i].shard];
    const UpdateBlock& block = blocks[pieces[i].shard];
    UpdateRows rows;
    rows.rule = rule;
    rows.numbers = numbers;
    rows.first_key = 0;
    rows.table = shard.rows;
    rows.slots[0] = shard.slots[0];
    rows.slots[1] = shard.slots[1];
    Occurrences found = {};
    found.payload_bits = kPlaceBits;
    found.type = RowType::kFloat;
    found.dim = shard.dim;
    found.stride = shard.dim;
    uint64_t words[1 << kPlaceBits];  // each row occurs once
    found.sorted = words;
    for (int64_t at = pieces[i].begin; at < pieces[i].end; at += found.count) {
      found.count = std::min<int64_t>(int64_t{1} << kPlaceBits, pieces[i].end - at);
      for (int64_t j = 0; j < found.count; ++j) {
        words[j] = static_cast<uint64_t>(block.rows[at + j]) << kPlaceBits | j;
      }
      found.gradients = block.values + at * shard.dim;
      kernels.update_runs(found, rows);
    }
  });
}

}  // namespace graph_opt
