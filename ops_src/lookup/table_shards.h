#ifndef GRAPH_OPT_LOOKUP_TABLE_SHARDS_H_
#define GRAPH_OPT_LOOKUP_TABLE_SHARDS_H_

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace graph_opt {

enum class Partition { kMod, kDiv, kKeys };

// Which shard of a partitioned table holds which id, as in tf.nn.embedding_lookup.
//
//   mod   id i is row i / P of shard i % P
//   div   shards are consecutive ranges of ids; the first V % P have one more row
//   keys  ids are keys (not in TensorFlow: rows that were packed from shards)
//
// Each row also has a key: rows are numbered consecutively, shard after shard.
class TableShards {
 public:
  TableShards() = default;
  TableShards(Partition partition, std::vector<int64_t> rows)
      : partition_(partition), rows_(std::move(rows)), first_keys_(1, 0) {
    for (int64_t count : rows_) first_keys_.push_back(first_keys_.back() + count);
    pieces_ = static_cast<int64_t>(rows_.size());
    piece_ = num_rows() / pieces_;
    longer_ = num_rows() % pieces_;
  }

  int num_shards() const { return static_cast<int>(rows_.size()); }
  int64_t num_rows() const { return first_keys_.back(); }
  int64_t first_key(int shard) const { return first_keys_[shard]; }
  int64_t end_key(int shard) const { return first_keys_[shard + 1]; }

  // Whether the key of each id is the id.
  bool ids_are_keys() const { return pieces_ == 1 || partition_ == Partition::kKeys; }

  // The key of `id`, or -1 if the table has no such row.
  int64_t KeyOf(int64_t id) const {
    if (id < 0) return -1;
    if (ids_are_keys()) return id < num_rows() ? id : -1;
    int64_t shard = id % pieces_;
    int64_t row = id / pieces_;
    if (partition_ == Partition::kDiv) DivPlace(id, &shard, &row);
    return shard < pieces_ && row < rows_[shard] ? first_keys_[shard] + row : -1;
  }

  int ShardOf(int64_t key) const {
    int shard = 0;
    while (key >= first_keys_[shard + 1]) ++shard;
    return shard;
  }

 private:
  void DivPlace(int64_t id, int64_t* shard, int64_t* row) const {
    const int64_t in_longer = longer_ * (piece_ + 1);
    if (id < in_longer) {
      *shard = id / (piece_ + 1);
      *row = id % (piece_ + 1);
    } else if (piece_ > 0) {
      *shard = longer_ + (id - in_longer) / piece_;
      *row = (id - in_longer) % piece_;
    } else {
      *shard = pieces_;
    }
  }

  Partition partition_ = Partition::kMod;
  std::vector<int64_t> rows_;
  std::vector<int64_t> first_keys_;
  int64_t pieces_ = 0;
  int64_t piece_ = 0;
  int64_t longer_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_TABLE_SHARDS_H_
