#include "exchange/received_gradients.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "exchange/no_gradient.h"

namespace graph_opt {
namespace {

GradientTable TableOf(const ServedShard& shard, int64_t num_rows, RowType type) {
  GradientTable table;
  table.shards = TableShards(Partition::kMod, {num_rows});
  table.dim = shard.dim;
  table.type = type;
  return table;
}

}  // namespace

int64_t BytesOfGradients(const std::vector<ServedShard>& shards, const ReceivedRequests& requests,
                         RowType type) {
  int64_t bytes = 0;
  for (const std::vector<RequestedRows>& requested : requests.ranks) {
    for (size_t i = 0; i < shards.size(); ++i) {
      bytes += BytesOfGradients(NumReadRows(requested[i]), RowBytesOf(type, shards[i].dim));
    }
  }
  return bytes;
}

ReceivedGradients::ReceivedGradients(const std::vector<ServedShard>& shards,
                                     const ReceivedRequests& requests, const char* gradients,
                                     RowType type, const RowKernels& kernels, Parallel* parallel)
    : shards_(shards), requests_(requests), type_(type), kernels_(kernels), parallel_(parallel) {
  for (size_t rank = 0; rank < requests.ranks.size(); ++rank) {
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      const RequestedRows& requested = requests.ranks[rank][shard];
      parts_.push_back(Part{rank, static_cast<int>(shard), &requested.bags, requested.rows,
                            requested.count, gradients});
      gradients += requested.count * shards[shard].dim * ByteSize(type);
    }
  }
}

absl::Status ReceivedGradients::Read(std::vector<GradientTable>* tables,
                                     std::vector<PooledGradient>* lookups) {
  NumberKeys();
  const absl::Status summed = SumBags();
  if (!summed.ok()) return summed;
  for (size_t i = 0; i < shards_.size(); ++i) {
    tables->push_back(TableOf(shards_[i], num_rows_[i], type_));
  }
  for (const Part& part : parts_) {
    PooledGradient lookup;
    lookup.bags = BagsOf(part);
    lookup.table = part.shard;
    lookup.gradients = part.gradients;
    lookup.stride = shards_[part.shard].dim;
    lookups->push_back(lookup);
  }
  return absl::OkStatus();
}

absl::Status ReceivedGradients::StatusOf(const BagFault& fault) const {
  return fault.kind == BagFault::kNone ? absl::OkStatus() : FaultOf(fault, parts_[fault.lookup]);
}

absl::Status ReceivedGradients::Sort() {
  std::vector<GradientTable> tables;
  std::vector<PooledGradient> lookups;
  const absl::Status read = Read(&tables, &lookups);
  if (!read.ok()) return read;
  rows_.reset(new GroupGradient(std::move(tables), std::move(lookups), kernels_, parallel_));
  return StatusOf(rows_->Sort());
}

bool ReceivedGradients::IsMarked(const Part& part, const char* gradient) const {
  return shards_[part.shard].dim > 0 && HasNoGradient(type_, gradient);
}

// The rows of a part, each a bag. Those that are marked are dropped.
Bags ReceivedGradients::BagsOf(const Part& part) {
  Bags bags;
  bags.ids = part.rows;
  bags.num_ids = bags.num_bags = part.count;
  bags.safe = false;
  bags.combiner = Combiner::kSum;
  const int64_t row_bytes = shards_[part.shard].dim * ByteSize(type_);
  for (int64_t i = 0; i < part.count; ++i) {
    if (!IsMarked(part, part.gradients + i * row_bytes)) continue;
    if (!bags.safe) {
      unmarked_.emplace_back();
      unmarked_.back().Reserve(part.count);
      std::copy(part.rows, part.rows + part.count, unmarked_.back().data());
      bags.ids = unmarked_.back().data();
      bags.safe = true;
    }
    unmarked_.back().data()[i] = -1;
  }
  return bags;
}

void ReceivedGradients::SumRows(const std::vector<GroupGradient::ShardSums>& sums) {
  std::vector<std::vector<GroupGradient::ShardSums>> of_tables;
  for (const GroupGradient::ShardSums& one : sums) of_tables.push_back({one});
  rows_->SumRows(of_tables);
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (keys_[i] == nullptr) continue;
    const int64_t* const keys = keys_[i]->keys();
    const int64_t num_rows = NumRows(static_cast<int>(i));
    for (int64_t row = 0; row < num_rows; ++row) sums[i].indices[row] = keys[sums[i].indices[row]];
  }
}

// Gives the parts with keys the numbers of these as rows.
void ReceivedGradients::NumberKeys() {
  keys_.clear();
  num_rows_.clear();
  for (const ServedShard& shard : shards_) {
    num_rows_.push_back(shard.num_rows);
    keys_.emplace_back(shard.by_key ? new KeyNumbers() : nullptr);
    if (shard.by_key) keys_.back()->Begin();
  }
  numbers_.resize(parts_.size());
  parallel_->Run(static_cast<int64_t>(shards_.size()), [&](int64_t shard) {
    if (keys_[shard] == nullptr) return;
    for (size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (part.shard != shard) continue;
      const RequestedKeys& requested = requests_.ranks[part.rank][shard].keys;
      numbers_[i].Reserve(std::max<int64_t>(requested.count, 1));
      for (int64_t k = 0; k < requested.count; ++k) {
        numbers_[i][k] = keys_[shard]->NumberOf(requested.keys[k]);
      }
      part.rows = numbers_[i].data();
    }
    num_rows_[shard] = keys_[shard]->size();
  });
}

// Gives the parts with bags the rows of these, as ranks that pool send them.
absl::Status ReceivedGradients::SumBags() {
  std::vector<Part*> summed;
  std::vector<Part*> part_of_lookup;
  std::vector<GradientTable> tables;
  std::vector<PooledGradient> lookups;
  std::vector<UnpackedBags> unpacked;
  for (Part& part : parts_) {
    if (part.bags->empty()) continue;
    const char* gradients = part.gradients;
    for (const PackedBags& packed : *part.bags) {
      const char* const of_lookup = gradients;
      gradients += packed.num_bags * shards_[part.shard].dim * ByteSize(type_);
      if (packed.num_bags > 0 && IsMarked(part, of_lookup)) continue;
      unpacked.emplace_back();
      const absl::Status status = Unpack(packed, &unpacked.back());
      if (!status.ok()) return OfRank(part.rank, status);
      PooledGradient lookup;
      lookup.bags = unpacked.back().bags;
      lookup.table = static_cast<int>(tables.size());
      lookup.gradients = of_lookup;
      lookup.stride = shards_[part.shard].dim;
      lookups.push_back(lookup);
      part_of_lookup.push_back(&part);
    }
    tables.push_back(TableOf(shards_[part.shard], num_rows_[part.shard], type_));
    summed.push_back(&part);
  }
  if (summed.empty()) return absl::OkStatus();
  GroupGradient gradient(tables, lookups, kernels_, parallel_);
  const BagFault fault = gradient.Sort();
  if (fault.kind != BagFault::kNone) return FaultOf(fault, *part_of_lookup[fault.lookup]);
  sums_ = std::vector<Sums>(summed.size());
  std::vector<std::vector<GroupGradient::ShardSums>> to(summed.size());
  for (size_t i = 0; i < summed.size(); ++i) {
    Part& part = *summed[i];
    part.count = gradient.NumRows(static_cast<int>(i), 0);
    sums_[i].rows.Reserve(part.count);
    sums_[i].values.Reserve(part.count * shards_[part.shard].dim * ByteSize(type_));
    part.rows = sums_[i].rows.data();
    part.gradients = sums_[i].values.data();
    to[i].push_back(GroupGradient::ShardSums{sums_[i].rows.data(), sums_[i].values.data()});
  }
  gradient.SumRows(to);
  return absl::OkStatus();
}

absl::Status ReceivedGradients::FaultOf(const BagFault& fault, const Part& part) const {
  const ServedShard& shard = shards_[part.shard];
  if (fault.kind == BagFault::kIdOutOfRange) {
    return OfRank(part.rank, absl::InvalidArgumentError(
                                 absl::StrCat("row ", fault.id, " is asked of table '", shard.table,
                                              "', which has ", shard.num_rows, " rows here")));
  }
  return OfRank(part.rank,
                absl::InvalidArgumentError(absl::StrCat(
                    "the gradients of table '", shard.table,
                    fault.kind == BagFault::kTooMany ? "' are too many for one step"
                                                     : "' are of bags that are out of order")));
}

}  // namespace graph_opt
