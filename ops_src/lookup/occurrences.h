#ifndef GRAPH_OPT_LOOKUP_OCCURRENCES_H_
#define GRAPH_OPT_LOOKUP_OCCURRENCES_H_

#include <cstdint>
#include <vector>

#include "lookup/bag_order.h"
#include "lookup/bags.h"
#include "lookup/dense_keys.h"
#include "lookup/parallel.h"
#include "lookup/table_shards.h"
#include "rows/row_kernels.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// A table whose lookups' gradients are summed by row.
struct GradientTable {
  TableShards shards;
  int64_t dim = 0;
  RowType type = RowType::kFloat;
};

// The gradients of one lookup's pooled rows.
struct PooledGradient {
  Bags bags;
  int table = 0;
  const void* gradients = nullptr;  // [num_bags, dim], rows `stride` elements apart
  int64_t stride = 0;
};

// Keys [begin, end) of one table: what one thread does at a time.
struct KeyRange {
  int table;
  int64_t begin;
  int64_t end;
};

// What sorting ids costs, as bytes of rows that would be read meanwhile: 2048 are worth a thread.
inline int64_t BytesOfIds(int64_t num_ids) { return 128 * num_ids; }
int64_t BytesOfIds(const std::vector<PooledGradient>& lookups);

// The same of sorting them and adding up their gradients, or updating their rows: about as long as
// reading eight of these.
inline int64_t BytesOfGradients(int64_t num_ids, int64_t row_bytes) {
  return 8 * num_ids * row_bytes;
}
int64_t BytesOfGradients(const std::vector<GradientTable>& tables,
                         const std::vector<PooledGradient>& lookups);

// Splits the tables into ranges with about the same number of ids each. Where they are split does
// not affect the results.
std::vector<KeyRange> KeyRangesOf(const std::vector<GradientTable>& tables,
                                  const std::vector<PooledGradient>& lookups, int num_threads);

// The occurrences of the rows of one key range, sorted by key; those of one row are in the order of
// lookups and ids. Where that is cheaper, they are summed already, in the same order.
//
// Each is one word that holds the key and the bag or, with weights, a number of its own; a radix
// sort brings those of a row together. A row belongs to one range, so threads that take one range
// after another share nothing.
class SortedOccurrences {
 public:
  SortedOccurrences() = default;
  SortedOccurrences(const SortedOccurrences&) = delete;
  SortedOccurrences& operator=(const SortedOccurrences&) = delete;

  // Reads the ids of all lookups of the range's table.
  BagFault Collect(const KeyRange& range, const GradientTable& table,
                   InBagOrder<PooledGradient>* lookups, const RowKernels& kernels);

  // Reads those of a whole table in their order, for others to take ranges from.
  BagFault ReadTable(int number, const GradientTable& table, InBagOrder<PooledGradient>* lookups);

  // Takes the range from its table, as ReadTable left it, which must outlive this.
  void TakeRange(const KeyRange& range, const SortedOccurrences& table, const RowKernels& kernels);

  // The occurrences with keys in [begin, end), as the row kernels take them.
  Occurrences Between(int64_t begin, int64_t end) const;

  // The number of distinct keys in [begin, end).
  int64_t CountKeys(int64_t begin, int64_t end) const;

 private:
  class Collector;

  BagFault Read(const KeyRange& range, const GradientTable& table,
                InBagOrder<PooledGradient>* lookups);
  BagFault ReadFrom(const std::vector<PooledGradient>& lookups, const KeyRange& range,
                    const GradientTable& table);
  Occurrences All() const;
  void Sort(const KeyRange& range, const RowKernels& kernels);
  bool SumByKey(const KeyRange& range, const RowKernels& kernels);

  ScratchArray<uint64_t> sorted_;
  ScratchArray<uint64_t> scratch_;
  size_t count_ = 0;
  int key_bits_ = 0;
  int payload_bits_ = 0;
  RowType type_ = RowType::kFloat;
  int64_t dim_ = 0;
  const void* gradients_ = nullptr;
  int64_t stride_ = 0;
  bool has_rows_ = false;
  bool has_divisors_ = false;
  bool has_scales_ = false;
  ScratchArray<int64_t> ends_;  // of bags
  ScratchArray<const void*> rows_;
  ScratchArray<float> divisors_;
  ScratchArray<float> scales_;
  const SortedOccurrences* payloads_ = this;  // has the three above
  DenseKeys keys_;
  ScratchArray<float> sums_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_OCCURRENCES_H_
