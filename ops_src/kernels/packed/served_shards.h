#ifndef GRAPH_OPT_KERNELS_PACKED_SERVED_SHARDS_H_
#define GRAPH_OPT_KERNELS_PACKED_SERVED_SHARDS_H_

#include <string>
#include <vector>

#include "kernels/lookup/variable_tables.h"
#include "kernels/packed/found_keys.h"
#include "packed/row_request.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The shards that an op serves to others, among its variables.
class ServedShards {
 public:
  // Names a variable, of which nothing is read yet.
  void Add(const VariableTables& variables, int variable, const std::string& table);

  const std::vector<ServedShard>& shards() const { return shards_; }

  // What finding the rows that are asked for, and sending them, costs, as bytes of rows that would
  // be read meanwhile. There is a request from each rank, or from one worker.
  int64_t BytesOf(const VariableTables& variables,
                  const std::vector<std::vector<RequestedRows>>& requests) const;

  // Finds the rows of keys that are asked of dynamic tables, and where the rows of all shards are.
  // They stay there while this lives.
  absl::Status FindRows(const VariableTables& variables,
                        std::vector<std::vector<RequestedRows>>* requests, Parallel* parallel);

 private:
  std::vector<ServedShard> shards_;
  std::vector<int> variables_;
  FoundKeys found_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_PACKED_SERVED_SHARDS_H_
