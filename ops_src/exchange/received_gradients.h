#ifndef GRAPH_OPT_EXCHANGE_RECEIVED_GRADIENTS_H_
#define GRAPH_OPT_EXCHANGE_RECEIVED_GRADIENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "exchange/received_requests.h"
#include "keys/key_numbers.h"
#include "lookup/group_gradient.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// What sorting and summing them costs, as bytes of rows that would be read meanwhile.
int64_t BytesOfGradients(const std::vector<ServedShard>& shards, const ReceivedRequests& requests,
                         RowType type);

// Sums the gradients that a rank receives for its shards' rows:
//
//   Sort()      requests of all ranks -> rows of each shard   then NumRows() is known
//   SumRows()   -> (row, sum of its gradients), ascending rows
//
// or says what is to be summed, for an update that does so:
//
//   Read()      requests of all ranks -> (row, gradient), rank after rank
//
// Of shards that go by key, keys take the place of rows, in the order in which ranks have named
// them. The gradients are laid out as the rows that were sent (GatherForRanks). Each rank's
// gradients of a row are summed first, and those sums are added in the order of the ranks: the
// result is the same to the bit for any number of threads, and whether ranks or owners pool. Rows
// that a rank has marked (no_gradient.h) are not among those that it has sent.
class ReceivedGradients {
 public:
  // `gradients` have as many elements as ElementsOfRanks() says. The data of `shards` is not read.
  ReceivedGradients(const std::vector<ServedShard>& shards, const ReceivedRequests& requests,
                    const char* gradients, RowType type, const RowKernels& kernels,
                    Parallel* parallel);

  // Tables and lookups are in the order of the shards; what they refer to is in this object.
  absl::Status Read(std::vector<GradientTable>* tables, std::vector<PooledGradient>* lookups);

  // What a fault of those lookups is called.
  absl::Status StatusOf(const BagFault& fault) const;

  absl::Status Sort();

  int64_t NumRows(int shard) const { return rows_->NumRows(shard, 0); }

  // One for each shard.
  void SumRows(const std::vector<GroupGradient::ShardSums>& sums);

 private:
  struct Part {  // what one rank sends for one shard
    size_t rank;
    int shard;
    const std::vector<PackedBags>* bags;
    const int64_t* rows;
    int64_t count;
    const char* gradients;  // of the rows, or of the bags while there are no rows
  };
  struct Sums {  // of a part with bags, by row
    ScratchArray<int64_t> rows;
    ScratchArray<char> values;
  };

  void NumberKeys();
  absl::Status SumBags();
  bool IsMarked(const Part& part, const char* gradient) const;
  Bags BagsOf(const Part& part);
  absl::Status FaultOf(const BagFault& fault, const Part& part) const;

  const std::vector<ServedShard>& shards_;
  const ReceivedRequests& requests_;
  std::vector<std::unique_ptr<KeyNumbers>> keys_;  // of each shard that goes by key
  std::vector<int64_t> num_rows_;                  // of each shard
  std::vector<ScratchArray<int64_t>> numbers_;     // of keys, for parts that refer to them
  const RowType type_;
  const RowKernels& kernels_;
  Parallel* const parallel_;
  std::vector<Part> parts_;                      // in the order of the message
  std::vector<Sums> sums_;                       // that parts refer to
  std::vector<ScratchArray<int64_t>> unmarked_;  // rows of parts with marks
  std::unique_ptr<GroupGradient> rows_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_EXCHANGE_RECEIVED_GRADIENTS_H_
