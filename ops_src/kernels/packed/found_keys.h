#ifndef GRAPH_OPT_KERNELS_PACKED_FOUND_KEYS_H_
#define GRAPH_OPT_KERNELS_PACKED_FOUND_KEYS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "dynamic/dynamic_table.h"
#include "lookup/parallel.h"
#include "packed/row_request.h"
#include "packed/row_update.h"
#include "scratch/scratch_array.h"

namespace graph_opt {

// The rows of keys that others have named, which stay where they are while this lives. Under a
// ReadLock of the table.
class FoundKeys {
 public:
  // Gives requests of one shard the rows of their keys: those of all ranks, as if they were one
  // lookup.
  absl::Status Find(DynamicTable* table, const std::vector<RequestedRows*>& requests,
                    Parallel* parallel);

  // Gives a block of an update the rows of its keys, which are about to be
  // written.
  absl::Status Find(DynamicTable* table, UpdateBlock* block, Parallel* parallel);

 private:
  absl::Status FindThose(DynamicTable* table, const std::vector<RequestedRows*>& requests,
                         NewKeys new_keys, Parallel* parallel);
  // Room for the rows of so many keys.
  int64_t* NewRows(int64_t count);

  std::vector<ScratchArray<int64_t>> rows_;
  std::vector<std::shared_ptr<Hold>> holds_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_PACKED_FOUND_KEYS_H_
