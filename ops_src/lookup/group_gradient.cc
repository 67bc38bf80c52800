#include "lookup/group_gradient.h"

#include <algorithm>
#include <utility>

namespace graph_opt {

GroupGradient::GroupGradient(std::vector<GradientTable> tables, std::vector<PooledGradient> lookups,
                             const RowKernels& kernels, Parallel* parallel)
    : tables_(std::move(tables)),
      lookups_(std::move(lookups)),
      kernels_(kernels),
      parallel_(parallel) {}

BagFault GroupGradient::Sort() {
  ScratchPool::OfProcess()->BeginCall();
  ranges_ = KeyRangesOf(tables_, lookups_, parallel_->num_threads());
  found_ = std::vector<SortedOccurrences>(ranges_.size());
  pieces_.clear();
  first_pieces_.clear();
  for (size_t i = 0; i < ranges_.size(); ++i) AddPieces(static_cast<int>(i));
  first_pieces_.push_back(pieces_.size());
  occurrences_.reset(new RangeOccurrences(tables_, lookups_, ranges_, parallel_));
  FirstFault first;
  parallel_->Run(static_cast<int64_t>(ranges_.size()), [&](int64_t i) {
    SortedOccurrences* const found = &found_[i];
    const BagFault fault = occurrences_->Collect(ranges_[i], kernels_, found);
    if (fault.kind != BagFault::kNone) return first.Tell(fault);
    for (size_t p = first_pieces_[i]; p < first_pieces_[i + 1]; ++p) {
      pieces_[p].num_rows = found->CountKeys(pieces_[p].begin, pieces_[p].end);
    }
  });
  num_rows_.clear();
  for (const GradientTable& table : tables_) num_rows_.emplace_back(table.shards.num_shards(), 0);
  for (Piece& piece : pieces_) {
    int64_t& rows = num_rows_[ranges_[piece.range].table][piece.shard];
    piece.first_row = rows;
    rows += piece.num_rows;
  }
  return first.fault();
}

void GroupGradient::AddPieces(int range) {
  first_pieces_.push_back(pieces_.size());
  const TableShards& shards = tables_[ranges_[range].table].shards;
  for (int shard = 0; shard < shards.num_shards(); ++shard) {
    const int64_t begin = std::max(ranges_[range].begin, shards.first_key(shard));
    const int64_t end = std::min(ranges_[range].end, shards.end_key(shard));
    if (begin < end) pieces_.push_back(Piece{range, shard, begin, end, 0, 0});
  }
}

int64_t GroupGradient::NumRows(int table, int shard) const { return num_rows_[table][shard]; }

void GroupGradient::SumRows(const std::vector<std::vector<ShardSums>>& sums) {
  parallel_->Run(static_cast<int64_t>(pieces_.size()), [&](int64_t i) {
    const Piece& piece = pieces_[i];
    const int table = ranges_[piece.range].table;
    const ShardSums& to = sums[table][piece.shard];
    const int64_t row_bytes = tables_[table].dim * ByteSize(tables_[table].type);
    RunSums rows;
    rows.first_key = static_cast<uint64_t>(tables_[table].shards.first_key(piece.shard));
    rows.indices = to.indices + piece.first_row;
    rows.values = static_cast<char*>(to.values) + piece.first_row * row_bytes;
    kernels_.sum_runs(found_[piece.range].Between(piece.begin, piece.end), rows);
  });
}

}  // namespace graph_opt
