#ifndef GRAPH_OPT_LOOKUP_GROUP_GRADIENT_H_
#define GRAPH_OPT_LOOKUP_GROUP_GRADIENT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "lookup/group_lookup.h"
#include "lookup/occurrences.h"
#include "lookup/range_occurrences.h"

namespace graph_opt {

// Turns the gradients of pooled rows into one gradient for each row that was looked up:
//
//   Sort()        ids -> occurrences by row            then NumRows() is known
//   SumRows()     occurrences -> (row, sum of its gradients), ascending rows
//
// A row's occurrences are added in the order of lookups and ids, for any number of threads.
class GroupGradient {
 public:
  GroupGradient(std::vector<GradientTable> tables, std::vector<PooledGradient> lookups,
                const RowKernels& kernels, Parallel* parallel);

  BagFault Sort();

  // The number of distinct rows of a shard that occur.
  int64_t NumRows(int table, int shard) const;

  // `indices[table][shard]` takes NumRows() rows of that shard, `values` their gradients.
  struct ShardSums {
    int64_t* indices;
    void* values;
  };
  void SumRows(const std::vector<std::vector<ShardSums>>& sums);

 private:
  struct Piece {  // the part of a range that is in one shard
    int range;
    int shard;
    int64_t begin, end;
    int64_t num_rows;
    int64_t first_row;  // rows of the shard in earlier pieces
  };

  void AddPieces(int range);

  const std::vector<GradientTable> tables_;
  const std::vector<PooledGradient> lookups_;
  const RowKernels& kernels_;
  Parallel* const parallel_;
  std::vector<KeyRange> ranges_;
  std::unique_ptr<RangeOccurrences> occurrences_;  // which those found refer to
  std::vector<SortedOccurrences> found_;           // of each range
  std::vector<Piece> pieces_;                      // in order of their ranges
  std::vector<size_t> first_pieces_;               // of each range, and the end
  std::vector<std::vector<int64_t>> num_rows_;
};

// Gradients of the weights of one lookup.
struct WeightGradient {
  Bags bags;
  int table;
  const void* gradients;  // of the pooled rows
  int64_t stride;
  float* weight_gradients;  // one for each id; 0 for dropped ones
};

// The rows whose reading takes as long.
std::vector<RowsOfBags> RowsOf(const std::vector<Table>& tables,
                               const std::vector<WeightGradient>& lookups);

BagFault GroupWeightGradient(const std::vector<Table>& tables,
                             const std::vector<WeightGradient>& lookups, Parallel* parallel);

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_GROUP_GRADIENT_H_
