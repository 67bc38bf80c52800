#include "kernels/refresh/missed_rows.h"

#include <string>

#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status MissedRows::Read(OpKernelConstruction* ctx, int num_shards) {
  const std::string& name = ctx->def().name();
  TF_RETURN_IF_ERROR(logs_.Read(ctx));
  TF_RETURN_IF_ERROR(ctx->GetAttr("may_miss", &may_miss_));
  if (logs_.size() != num_shards) {
    return errors::InvalidArgument(name, ": row_logs has ", logs_.size(),
                                   " entries, need one for each of the ", num_shards, " shards");
  }
  if (may_miss_.empty()) may_miss_.assign(num_shards, 0);
  if (static_cast<int>(may_miss_.size()) != num_shards) {
    return errors::InvalidArgument(name, ": may_miss has ", may_miss_.size(),
                                   " entries, need none or one for each of the ", num_shards,
                                   " shards");
  }
  for (const tensorflow::int64 updates : may_miss_) {
    if (updates >= 0) continue;
    return errors::InvalidArgument(name, ": may_miss has ", updates, ", need at least 0");
  }
  return Status();
}

Status MissedRows::Find(OpKernelContext* ctx, const std::vector<int>& shards,
                        std::vector<RowSet>* rows) const {
  const Tensor* position = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("log_position", &position));
  if (position->NumElements() != logs_.size()) {
    return errors::InvalidArgument(ctx->op_kernel().name(), ": log_position has ",
                                   position->NumElements(), " entries, need one for each of the ",
                                   logs_.size(), " shards");
  }
  const auto positions = position->flat<tensorflow::int64>();
  rows->clear();
  for (int shard : shards) {
    if (positions(shard) < 0 && logs_.has(shard)) {
      rows->push_back(RowSet::OfAll());  // what a log tells of no position
      continue;
    }
    RowLogs::Pointer log;
    TF_RETURN_IF_ERROR(logs_.Find(ctx, shard, &log));
    rows->push_back(log == nullptr ? RowSet()
                                   : log->log()->Since(positions(shard), may_miss_[shard]));
  }
  return Status();
}

}  // namespace graph_opt
