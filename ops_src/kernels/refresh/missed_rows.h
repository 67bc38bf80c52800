#ifndef GRAPH_OPT_KERNELS_REFRESH_MISSED_ROWS_H_
#define GRAPH_OPT_KERNELS_REFRESH_MISSED_ROWS_H_

#include <vector>

#include "kernels/refresh/row_logs.h"
#include "lookup/row_set.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// The rows of an op's shards that have missed more updates than they may since they were read: by
// the attributes `row_logs` and `may_miss`, and the input `log_position`.
class MissedRows {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, int num_shards);

  // Of each of these shards, and perhaps a few more; none of a shard without a log.
  tensorflow::Status Find(tensorflow::OpKernelContext* ctx, const std::vector<int>& shards,
                          std::vector<RowSet>* rows) const;

 private:
  RowLogs logs_;
  std::vector<tensorflow::int64> may_miss_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_REFRESH_MISSED_ROWS_H_
