#ifndef GRAPH_OPT_CUDA_HOST_GROUP_H_
#define GRAPH_OPT_CUDA_HOST_GROUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "cuda/group_embedding_cuda.h"
#include "lookup/group_gradient.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// The bags of a lookup in host memory; positions that have sizes are not flattened yet.
Bags BagsOf(const GraphOptCudaLookup& lookup);
// The rows of sparse ids whose positions `sizes` make rows; may be written over the positions.
void FlattenPositions(const GraphOptCudaLookup& lookup, const int64_t* positions, int64_t* rows);
// A table of a group without its rows.
GradientTable GradientTableOf(const GraphOptCudaGroup& group, int table);

// Does the work of a group in device memory with the CPU's functors, for a GPU whose kernels cannot
// be trusted. Ids, gradients and the rows that ids refer to are copied to the host, and results
// back. Each call waits for the stream, and fails if a copy fails.
//
//   Lookup()                     pools the rows of all lookups
//   Sort(), NumRows(), Sum()     sums of gradients
//   Sort(), Apply()              updates
class HostGroup {
 public:
  HostGroup(const GraphOptCudaGroup& group, void* stream, Parallel* parallel);

  // Bad ids do not fail the call: they are reported in `fault`, and nothing is written.
  absl::Status Lookup(BagFault* fault);
  absl::Status Sort(BagFault* fault);
  int64_t NumRows(int shard) const;  // of all shards of the group
  absl::Status Sum();
  absl::Status Apply(const Optimizer& optimizer);

 private:
  struct ReadLookup {
    Bags bags;
    ScratchArray<char> ids;
    ScratchArray<int64_t> positions;
    ScratchArray<float> weights;
    ScratchArray<char> gradients;
  };
  struct ShardSums {
    ScratchArray<int64_t> rows;
    ScratchArray<char> sums;
  };

  // What an update reads and writes of the rows that have a gradient: they and their slots.
  static constexpr int kUpdatedParts = 1 + kMostSlots;
  struct UpdatedCopy {
    ScratchArray<float> parts[kUpdatedParts];
    ScratchArray<int64_t> numbers;  // of the rows in the copy
  };

  absl::Status Read();
  absl::Status ReadBags(const GraphOptCudaLookup& from, ReadLookup* to);
  absl::Status ReadGradients();
  absl::Status ReadRows(const void* rows, int64_t row_bytes, const int64_t* which, int64_t count,
                        char* to);
  absl::Status WriteRows(const char* from, int64_t row_bytes, const int64_t* which, int64_t count,
                         void* rows);
  absl::Status ReadUpdated(int table, int shard, const int64_t* rows, UpdatedCopy* copy);
  absl::Status WriteUpdated(int table, int shard, const int64_t* rows, UpdatedCopy* copy);
  std::vector<ShardSums> SumOnHost();
  int64_t RowBytes(int table) const;

  const GraphOptCudaGroup& group_;
  void* const stream_;
  Parallel* const parallel_;
  std::vector<GradientTable> tables_;
  std::vector<ReadLookup> lookups_;
  std::unique_ptr<GroupGradient> gradient_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_HOST_GROUP_H_
