#include "packed/row_update.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apply/group_apply.h"
#include "packed/shard_blocks.h"

namespace graph_opt {
namespace {

constexpr int64_t kHeaderWords = 4;  // of one shard
constexpr int64_t kHeaderBytes = kHeaderWords * sizeof(int64_t);
constexpr int kPlaceBits = 10;  // rows updated by one call of a kernel

std::string ShardText(const std::vector<UpdatedShard>& shards, size_t shard) {
  return absl::StrCat("shard ", shard, " of ", shards.size(), " (table '", shards[shard].table,
                      "')");
}

std::vector<ShardBlock> BlocksOf(const std::vector<UpdateBlock>& blocks, int num_threads) {
  std::vector<int64_t> counts;
  std::vector<int64_t> row_bytes;
  for (const UpdateBlock& block : blocks) {
    counts.push_back(block.lookups > 0 ? 0 : block.count);
    row_bytes.push_back(block.width * static_cast<int64_t>(sizeof(float)));
  }
  return BlocksOfShards(counts, row_bytes, num_threads);
}

void Place(char* bytes, std::vector<UpdateBlock>* blocks) {
  bytes += kHeaderBytes * static_cast<int64_t>(blocks->size());
  for (UpdateBlock& block : *blocks) {
    block.rows = reinterpret_cast<int64_t*>(bytes);
    bytes += block.words * sizeof(int64_t);
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

// Reads the numbers before the rows.
absl::Status ReadBlocks(const char* bytes, int64_t size, const std::vector<UpdatedShard>& shards,
                        std::vector<UpdateBlock>* blocks) {
  const int64_t header_bytes = kHeaderBytes * static_cast<int64_t>(shards.size());
  if (size < header_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the update has ", size,
                                                   " bytes, fewer than the counts of its ",
                                                   shards.size(), " shards"));
  }
  int64_t left = size - header_bytes;
  blocks->clear();
  for (size_t i = 0; i < shards.size(); ++i) {
    int64_t header[kHeaderWords];
    std::memcpy(header, bytes + i * kHeaderBytes, kHeaderBytes);
    const UpdateBlock block = {header[0], header[1], header[2], header[3], nullptr, nullptr};
    if ((block.lookups == kByKey) != shards[i].by_key) {
      return absl::InvalidArgumentError(
          absl::StrCat("the update has ", shards[i].by_key ? "rows" : "keys", " of ",
                       ShardText(shards, i), ", which goes by ", shards[i].by_key ? "key" : "row"));
    }
    if (block.width != shards[i].dim) {
      return absl::InvalidArgumentError(absl::StrCat(ShardText(shards, i), " is ", shards[i].dim,
                                                     " wide, the update has rows of ",
                                                     block.width));
    }
    const int64_t word_bytes = sizeof(int64_t);
    const int64_t row_bytes = std::max<int64_t>(block.width * sizeof(float), 1);
    const bool is_short = block.words < 0 || block.words > left / word_bytes || block.count < 0 ||
                          block.count > (left - block.words * word_bytes) / row_bytes;
    const bool of_bags = block.lookups > 0;
    const int64_t words_of_rows =
        block.lookups == kRowsAndAsked ? WordsOfAskedRows(block.count) : block.count;
    if (is_short || block.lookups < kRowsAndAsked || (!of_bags && block.words != words_of_rows)) {
      return absl::InvalidArgumentError(absl::StrCat("the update has ", size,
                                                     " bytes, which can not be ", block.count,
                                                     " rows of ", ShardText(shards, i)));
    }
    left -= block.words * word_bytes + block.count * block.width * sizeof(float);
    blocks->push_back(block);
  }
  if (left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the update has ", size, " bytes, ", left, " more than its rows need"));
}

absl::Status CheckRows(const std::vector<UpdatedShard>& shards,
                       const std::vector<UpdateBlock>& blocks, Parallel* parallel) {
  const std::vector<ShardBlock> pieces = BlocksOf(blocks, parallel->num_threads());
  std::mutex mutex;
  std::pair<int64_t, int64_t> bad(static_cast<int64_t>(shards.size()), 0);  // shard and place
  parallel->Run(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const int64_t shard = pieces[i].shard;
    if (shards[shard].by_key) return;
    const int64_t stop = FirstBadRow(blocks[shard], pieces[i], shards[shard].num_rows);
    if (stop == pieces[i].end) return;
    std::lock_guard<std::mutex> lock(mutex);
    bad = std::min(bad, std::make_pair(shard, stop));
  });
  if (bad.first == static_cast<int64_t>(shards.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the update of ", ShardText(shards, bad.first), " names row ",
                   blocks[bad.first].rows[bad.second], " at ", bad.second,
                   "; need ascending rows, each once, below ", shards[bad.first].num_rows));
}

// The bags of one shard. What is wrong goes on from "the update has".
absl::Status ReadBagsOf(const UpdateBlock& block, int64_t num_rows,
                        std::vector<UnpackedBags>* lookups) {
  const int64_t* words = block.rows;
  const int64_t* const end = words + block.words;
  int64_t num_bags = 0;
  int64_t num_ids = 0;
  for (int64_t i = 0; i < block.lookups; ++i) {
    PackedBags packed;
    lookups->emplace_back();
    absl::Status status = FindPackedBags(&words, end, &packed);
    if (status.ok()) status = Unpack(packed, &lookups->back());
    if (!status.ok()) return status;
    const int64_t row = RowOutside(lookups->back(), num_rows);
    if (row >= 0) return absl::InvalidArgumentError(absl::StrCat("row ", row, " of ", num_rows));
    num_bags += packed.num_bags;
    num_ids += packed.num_ids;
  }
  if (num_ids > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("too many ids");
  }
  if (words != end) return absl::InvalidArgumentError("more bags than lookups");
  if (num_bags == block.count) return absl::OkStatus();
  return absl::InvalidArgumentError("gradients of another number of bags");
}

absl::Status ReadBags(const std::vector<UpdatedShard>& shards,
                      const std::vector<UpdateBlock>& blocks, Parallel* parallel,
                      std::vector<std::vector<UnpackedBags>>* bags) {
  bags->clear();
  bags->resize(shards.size());
  std::vector<absl::Status> read(shards.size());
  parallel->Run(static_cast<int64_t>(shards.size()), [&](int64_t i) {
    if (blocks[i].lookups <= 0) return;
    read[i] = ReadBagsOf(blocks[i], shards[i].num_rows, &(*bags)[i]);
  });
  for (size_t i = 0; i < shards.size(); ++i) {
    if (read[i].ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the update of ", ShardText(shards, i), " has ", read[i].message()));
  }
  return absl::OkStatus();
}

UpdatedTable TableOf(const UpdatedShard& shard) {
  UpdatedTable table;
  table.table.shards = TableShards(Partition::kMod, {shard.num_rows});
  table.table.dim = shard.dim;
  UpdatedTable::Shard rows = {shard.rows, {}, shard.deferred};
  std::copy(shard.slots, shard.slots + kMostSlots, rows.slots);
  rows.optimizer = shard.optimizer;
  table.shards.push_back(rows);
  return table;
}

// Nothing can be wrong with the bags: ReadUpdate looked at them.
void ApplyBags(const Optimizer& optimizer, const std::vector<UpdatedShard>& shards,
               const RowUpdate& update, const RowKernels& kernels, Parallel* parallel) {
  std::vector<UpdatedTable> tables;
  std::vector<PooledGradient> lookups;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (update.bags[i].empty()) continue;
    const float* gradients = update.blocks[i].values;
    for (const UnpackedBags& unpacked : update.bags[i]) {
      PooledGradient lookup;
      lookup.bags = unpacked.bags;
      lookup.table = static_cast<int>(tables.size());
      lookup.gradients = gradients;
      lookup.stride = shards[i].dim;
      lookups.push_back(lookup);
      gradients += unpacked.bags.num_bags * shards[i].dim;
    }
    tables.push_back(TableOf(shards[i]));
  }
  GroupApply(optimizer, tables, lookups, kernels, parallel);
}

void ApplyRows(const Optimizer& optimizer, const std::vector<UpdatedShard>& shards,
               const std::vector<UpdateBlock>& blocks, const RowKernels& kernels,
               Parallel* parallel) {
  const std::vector<ShardBlock> pieces = BlocksOf(blocks, parallel->num_threads());
  parallel->Run(static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const UpdatedShard& shard = shards[pieces[i].shard];
    const UpdateBlock& block = blocks[pieces[i].shard];
    UpdateRows rows;
    rows.optimizer = shard.optimizer == nullptr ? optimizer : *shard.optimizer;
    rows.first_key = 0;
    rows.stride = shard.stride == 0 ? shard.dim : shard.stride;
    rows.table = shard.rows;
    std::copy(shard.slots, shard.slots + kMostSlots, rows.slots);
    Occurrences found = {};
    found.payload_bits = kPlaceBits;
    found.type = RowType::kFloat;
    found.dim = shard.dim;
    found.stride = shard.dim;
    uint64_t words[1 << kPlaceBits];  // each row occurs once
    found.sorted = words;
    int64_t next = pieces[i].begin;
    for (int64_t at = next; at < pieces[i].end; at = next) {
      next = std::min(at + (int64_t{1} << kPlaceBits), pieces[i].end);
      found.count = 0;
      for (int64_t j = at; j < next; ++j) {
        if (block.rows[j] < shard.first_row) continue;
        words[found.count++] = static_cast<uint64_t>(block.rows[j]) << kPlaceBits | (j - at);
      }
      found.gradients = block.values + at * shard.dim;
      if (shard.deferred == nullptr) {
        kernels.update_runs(found, rows);
      } else {
        UpdateRuns(shard.deferred, found, rows, kernels);
      }
    }
  });
}

}  // namespace

int64_t UpdateBytes(const std::vector<UpdateBlock>& blocks) {
  int64_t bytes = kHeaderBytes * static_cast<int64_t>(blocks.size());
  for (const UpdateBlock& block : blocks) {
    bytes += block.words * static_cast<int64_t>(sizeof(int64_t));
    bytes += block.count * block.width * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

void LayOutUpdate(char* bytes, std::vector<UpdateBlock>* blocks) {
  for (size_t i = 0; i < blocks->size(); ++i) {
    const UpdateBlock& block = (*blocks)[i];
    const int64_t header[kHeaderWords] = {block.count, block.width, block.lookups, block.words};
    std::memcpy(bytes + i * kHeaderBytes, header, kHeaderBytes);
  }
  Place(bytes, blocks);
}

absl::Status ReadUpdate(char* bytes, int64_t size, const std::vector<UpdatedShard>& shards,
                        Parallel* parallel, RowUpdate* update) {
  absl::Status status = ReadBlocks(bytes, size, shards, &update->blocks);
  if (!status.ok()) return status;
  Place(bytes, &update->blocks);
  status = CheckRows(shards, update->blocks, parallel);
  if (!status.ok()) return status;
  return ReadBags(shards, update->blocks, parallel, &update->bags);
}

int64_t BytesOf(const RowUpdate& update) {
  int64_t bytes = 0;
  for (size_t i = 0; i < update.blocks.size(); ++i) {
    const UpdateBlock& block = update.blocks[i];
    int64_t num_ids = update.bags[i].empty() ? block.count : 0;
    for (const UnpackedBags& unpacked : update.bags[i]) num_ids += unpacked.bags.num_ids;
    bytes += BytesOfGradients(num_ids, block.width * static_cast<int64_t>(sizeof(float)));
  }
  return bytes;
}

int64_t AnswerSize(const RowUpdate& update) {
  int64_t size = 0;
  for (const UpdateBlock& block : update.blocks) {
    if (block.lookups != kRowsAndAsked) continue;
    for (int64_t i = 0; i < block.count; ++i) size += IsAsked(block, i) ? block.width : 0;
  }
  return size;
}

void WriteAnswer(const std::vector<UpdatedShard>& shards, const RowUpdate& update, float* values) {
  for (size_t i = 0; i < shards.size(); ++i) {
    const UpdateBlock& block = update.blocks[i];
    if (block.lookups != kRowsAndAsked) continue;
    const int64_t stride = shards[i].stride == 0 ? shards[i].dim : shards[i].stride;
    for (int64_t j = 0; j < block.count; ++j) {
      if (!IsAsked(block, j)) continue;
      std::memcpy(values, shards[i].rows + block.rows[j] * stride, shards[i].dim * sizeof(float));
      values += shards[i].dim;
    }
  }
}

void ApplyUpdate(const Optimizer& optimizer, const std::vector<UpdatedShard>& shards,
                 const RowUpdate& update, const RowKernels& kernels, Parallel* parallel) {
  ApplyRows(optimizer, shards, update.blocks, kernels, parallel);
  ApplyBags(optimizer, shards, update, kernels, parallel);
}

}  // namespace graph_opt
