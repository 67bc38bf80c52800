#ifndef GRAPH_OPT_LOOKUP_GROUP_LOOKUP_H_
#define GRAPH_OPT_LOOKUP_GROUP_LOOKUP_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "lookup/bags.h"
#include "lookup/parallel.h"
#include "lookup/table_shards.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// An embedding table, in one or more shards, each [rows, dim].
struct Table {
  TableShards shards;
  std::vector<const void*> data;  // one for each shard
  std::vector<int64_t> strides;   // bytes from row to row of each; empty: rows are dense
  int64_t dim = 0;
  RowType type = RowType::kFloat;

  int64_t stride(int shard) const {
    return strides.empty() ? RowBytesOf(type, dim) : strides[shard];
  }
  const char* Row(int64_t key) const {
    const int shard = data.size() == 1 ? 0 : shards.ShardOf(key);
    const int64_t row = key - shards.first_key(shard);
    return static_cast<const char*>(data[shard]) + row * stride(shard);
  }
};

// One lookup of a group: its bags, the table that their ids refer to, and where pooled rows go.
struct Lookup {
  Bags bags;
  int table = 0;
  void* pooled = nullptr;  // [num_bags, dim], rows pooled_stride elements apart
  int64_t pooled_stride = 0;
  RowType pooled_type = RowType::kFloat;  // or that of the table
};

// Keeps the first of the faults that threads find.
class FirstFault {
 public:
  void Tell(const BagFault& fault) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (fault.Before(fault_)) fault_ = fault;
  }
  const BagFault& fault() const { return fault_; }

 private:
  std::mutex mutex_;
  BagFault fault_;
};

// The rows of one lookup: those that are read, one for each id, and written, one for each bag.
struct RowsOfBags {
  const Bags* bags;
  int64_t row_bytes;

  int64_t bytes() const { return (bags->num_bags + bags->num_ids) * row_bytes; }
};

std::vector<RowsOfBags> RowsOf(const std::vector<Table>& tables,
                               const std::vector<Lookup>& lookups);

int64_t BytesOf(const std::vector<RowsOfBags>& lookups);

// Splits the lookups into blocks of about equal cost, counting a bag and an id the same.
std::vector<BagBlock> BlocksOf(const std::vector<RowsOfBags>& lookups, int num_threads);

// Pools the bags of one block, whose sparse ids are in the order of bags.
BagFault PoolBags(const Table& table, const Lookup& lookup, const BagBlock& block,
                  const RowKernels& kernels);

// Pools the rows of all lookups. The pooled rows are undefined when a fault is returned.
BagFault GroupLookup(const std::vector<Table>& tables, const std::vector<Lookup>& lookups,
                     const RowKernels& kernels, Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_GROUP_LOOKUP_H_
