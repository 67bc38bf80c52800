#include "kernels/apply/announced_updates.h"

#include <algorithm>
#include <vector>

#include "dynamic/dynamic_table.h"
#include "scratch/scratch_array.h"

namespace graph_opt {
namespace {

constexpr int64_t kIdsAtOnce = 8192;

// Some ids of one lookup, of which those of one part of its table are told to that part.
struct Block {
  DynamicTable* table;
  int64_t part;
  int64_t num_parts;
  const Bags* bags;
  int64_t begin;
  int64_t end;
};

int64_t IdAt(const Bags& bags, int64_t k) {
  if (bags.wide_ids) return static_cast<const int64_t*>(bags.ids)[k];
  return static_cast<const int32_t*>(bags.ids)[k];
}

// Row r of part p of P has the id r * P + p.
void Announce(const Block& block) {
  const DynamicTable::Rows places = block.table->rows();
  ScratchArray<int64_t> rows(block.end - block.begin);
  int64_t count = 0;
  for (int64_t k = block.begin; k < block.end; ++k) {
    const int64_t id = IdAt(*block.bags, k);
    const bool is_whole = block.num_parts == 1;
    if (id < 0 || (!is_whole && id % block.num_parts != block.part)) continue;
    const int64_t row = is_whole ? id : id / block.num_parts;
    if (row >= places.first_row && row < places.end) rows[count++] = row;
  }
  block.table->WillWrite(rows.data(), count);
}

}  // namespace

void AnnounceUpdates(const VariableTables& variables, const GroupAttrs& attrs,
                     const std::vector<PooledGradient>& lookups, Parallel* parallel) {
  std::vector<Block> blocks;
  for (const PooledGradient& lookup : lookups) {
    const int first = attrs.first_shard(lookup.table);
    const int num_parts = attrs.first_shard(lookup.table + 1) - first;
    for (int part = 0; part < num_parts; ++part) {
      DynamicTable* const table = variables.dynamic_table(first + part);
      const int64_t num_ids = table == nullptr ? 0 : lookup.bags.num_ids;
      for (int64_t begin = 0; begin < num_ids; begin += kIdsAtOnce) {
        const int64_t end = std::min(begin + kIdsAtOnce, num_ids);
        blocks.push_back(Block{table, part, num_parts, &lookup.bags, begin, end});
      }
    }
  }
  parallel->Run(static_cast<int64_t>(blocks.size()), [&](int64_t i) { Announce(blocks[i]); });
}

}  // namespace graph_opt
