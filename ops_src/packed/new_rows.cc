#include "packed/new_rows.h"

#include <cstring>

namespace graph_opt {
namespace {

int64_t RowBytes(const Table& table) { return table.dim * ByteSize(table.type); }

}  // namespace

NewRows::NewRows(const PackedShards& shards, const std::vector<Table>& tables,
                 const std::vector<SentRows>& sent)
    : tables_(tables), changed_(tables.size()) {
  std::vector<char*> next;
  for (const SentRows& one : sent) next.push_back(const_cast<char*>(one.data));
  for (size_t t = 0; t < tables.size(); ++t) {
    changed_[t].shards.resize(tables[t].shards.num_shards());
    int64_t number = 0;
    for (int shard = shards.first_shards[t]; shard < shards.first_shards[t + 1]; ++shard) {
      char*& rows = next[shards.servers[shard]];
      shards_.push_back(Shard{static_cast<int>(t), number, rows});
      number += shards.counts[shard];
      rows += shards.counts[shard] * RowBytes(tables[t]);
    }
  }
}

void NewRows::Write(int shard, const std::vector<int64_t>& places,
                    const std::vector<const char*>& values) {
  const Shard& to = shards_[shard];
  const Table& table = tables_[to.table];
  const TableShards& numbers = table.shards;
  const int64_t row_bytes = RowBytes(table);
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t number = to.first_number + places[i];
    const int block = numbers.ShardOf(number);
    RowSet& set = changed_[to.table].shards[block];
    const int64_t rows_of_block = numbers.end_key(block) - numbers.first_key(block);
    if (set.none()) set = RowSet(rows_of_block, rows_of_block);
    set.Add(number - numbers.first_key(block));
    std::memcpy(to.rows + places[i] * row_bytes, values[i], row_bytes);
  }
}

}  // namespace graph_opt
