#ifndef GRAPH_OPT_KERNELS_APPLY_TABLE_UPDATE_H_
#define GRAPH_OPT_KERNELS_APPLY_TABLE_UPDATE_H_

#include <string>
#include <vector>

#include "apply/group_apply.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/deferred/row_states.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/refresh/row_logs.h"
#include "pages/moving_tables.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// What ops that update tables in their own process share, wherever the gradients come from. Their
// first inputs are the shards and slots; attributes are those of GRAPH_OPT_OPTIMIZER_ATTRS and
// GRAPH_OPT_ROW_LOG_ATTRS.
class TableUpdate {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, int num_shards);

  // Opens the shards and slots.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, VariableTables* variables);

  // Where a shard is, of a table of this name and width, with its slots.
  tensorflow::Status ReadShard(const std::string& op, VariableTables* variables, int shard,
                               const std::string& table, int64_t dim,
                               UpdatedTable::Shard* found) const;

  // Updates the tables, whose shards are as ReadShard found them. `first_shards` has the index of
  // each table's first shard, and the end.
  tensorflow::Status Apply(tensorflow::OpKernelContext* ctx, const std::vector<int>& first_shards,
                           const std::vector<PooledGradient>& lookups, VariableTables* variables,
                           std::vector<UpdatedTable>* tables, BagFault* fault) const;

 private:
  OptimizerInputs optimizer_;
  UpdateLogs logs_;
  RowStates states_;
  MovingTables moving_;
  ScratchUser scratch_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_APPLY_TABLE_UPDATE_H_
