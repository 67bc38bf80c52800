// Which ids belong to a bag, and which rows they name; the same as lookup/bags.h and
// lookup/table_shards.h say, for one thread at a time.
#ifndef GRAPH_OPT_CUDA_BAGS_ON_DEVICE_H_
#define GRAPH_OPT_CUDA_BAGS_ON_DEVICE_H_

#include "cuda/group_on_device.h"

namespace graph_opt {
namespace gpu {

GRAPH_OPT_GPU int64_t IdAt(const GraphOptCudaLookup& of, int64_t k) {
  if (of.wide_ids) return static_cast<const int64_t*>(of.ids)[k];
  return static_cast<const int32_t*>(of.ids)[k];
}

// Whether an id counts, whatever row it names.
GRAPH_OPT_GPU bool Counts(const LookupOnDevice& lookup, int64_t k, int64_t id) {
  if (lookup.given.safe && id < 0) return false;
  return !lookup.drops_weights || lookup.given.weights[k] > 0;
}

GRAPH_OPT_GPU float WeightAt(const GraphOptCudaLookup& of, int64_t k) {
  return of.weights == nullptr ? 1.0f : of.weights[k];
}

// The bag of the sparse id k, or -1 when its positions are outside the shape.
GRAPH_OPT_GPU int64_t SparseBagOf(const GraphOptCudaLookup& of, int64_t k) {
  const int64_t* positions = of.positions + k * of.stride;
  int64_t bag = positions[0];
  if (of.num_sizes > 1) {
    bag = 0;
    for (int32_t d = 0; d < of.num_sizes; ++d) {
      if (positions[d] < 0 || positions[d] >= of.sizes[d]) return -1;
      bag = bag * of.sizes[d] + positions[d];
    }
  }
  return bag >= 0 && bag < of.num_bags ? bag : -1;
}

GRAPH_OPT_GPU int64_t Clamped(int64_t value, int64_t end) {
  return Least(Greatest<int64_t>(value, 0), end);
}

// The first id of the bags from `bag` on, between 0 and num_ids whatever the positions hold.
GRAPH_OPT_GPU int64_t FirstIdOf(const GraphOptCudaLookup& of, int64_t bag) {
  if (bag == 0) return 0;
  if (bag == of.num_bags) return of.num_ids;
  if (of.layout == GRAPH_OPT_CUDA_DENSE) return bag * of.width;
  if (of.layout == GRAPH_OPT_CUDA_RAGGED) return Clamped(of.positions[bag], of.num_ids);
  int64_t low = 0;
  int64_t high = of.num_ids;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (SparseBagOf(of, middle) < bag) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The ids [begin, end) of a bag; none where they are out of order.
struct IdRange {
  int64_t begin;
  int64_t end;
};

GRAPH_OPT_GPU IdRange IdsOf(const GraphOptCudaLookup& of, int64_t bag) {
  const int64_t begin = FirstIdOf(of, bag);
  return IdRange{begin, Greatest(begin, FirstIdOf(of, bag + 1))};
}

// The bag of id k, or -1 for none.
GRAPH_OPT_GPU int64_t BagOf(const GraphOptCudaLookup& of, int64_t k) {
  if (of.layout == GRAPH_OPT_CUDA_DENSE) return k / of.width;
  if (of.layout == GRAPH_OPT_CUDA_SPARSE) return SparseBagOf(of, k);
  int64_t low = 0;  // the last bag that begins at k or before
  int64_t high = of.num_bags;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (of.positions[middle + 1] <= k) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < of.num_bags && of.positions[low] <= k ? low : -1;
}

// Whether the row splits around a bag are as they must be, together with those of all others.
GRAPH_OPT_GPU bool SplitsAreInOrder(const GraphOptCudaLookup& of, int64_t bag) {
  const int64_t begin = of.positions[bag];
  const int64_t end = of.positions[bag + 1];
  return begin <= end && (bag > 0 || begin == 0) && (bag + 1 < of.num_bags || end == of.num_ids);
}

// The key of an id's row, or -1 when the table has no such row.
GRAPH_OPT_GPU int64_t KeyOf(const GroupOnDevice& group, const TableOnDevice& table, int64_t id) {
  if (id < 0) return -1;
  if (table.num_shards == 1) return id < table.num_rows ? table.first_key + id : -1;
  int64_t shard = id % table.num_shards;
  int64_t row = id / table.num_shards;
  if (table.partition == GRAPH_OPT_CUDA_DIV) {
    const int64_t in_longer = table.longer * (table.piece + 1);
    if (id < in_longer) {
      shard = id / (table.piece + 1);
      row = id % (table.piece + 1);
    } else if (table.piece > 0) {
      shard = table.longer + (id - in_longer) / table.piece;
      row = (id - in_longer) % table.piece;
    } else {
      return -1;
    }
    if (shard >= table.num_shards) return -1;
  }
  const int64_t* first_keys = group.first_keys + table.first_shard;
  const int64_t key = first_keys[shard] + row;
  return key < first_keys[shard + 1] ? key : -1;
}

// The shard of a key of the table, counted from the group's first one.
GRAPH_OPT_GPU int32_t ShardOf(const GroupOnDevice& group, const TableOnDevice& table, int64_t key) {
  if (table.num_shards == 1) return table.first_shard;
  return PartOf(group.first_keys, group.num_shards, key);
}

GRAPH_OPT_GPU const void* RowOf(const GroupOnDevice& group, const TableOnDevice& table,
                                int32_t element_bytes, int64_t key) {
  const int32_t shard = ShardOf(group, table, key);
  const int64_t row = key - group.first_keys[shard];
  return static_cast<const char*>(group.shards[shard].rows) + row * table.dim * element_bytes;
}

GRAPH_OPT_GPU uint64_t Fault(int32_t kind, int32_t lookup, int64_t bag) {
  return static_cast<uint64_t>(lookup) << 48 | static_cast<uint64_t>(bag) << 2 |
         static_cast<uint64_t>(kind);
}

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_BAGS_ON_DEVICE_H_
