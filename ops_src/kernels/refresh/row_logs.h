#ifndef GRAPH_OPT_KERNELS_REFRESH_ROW_LOGS_H_
#define GRAPH_OPT_KERNELS_REFRESH_ROW_LOGS_H_

#include <string>
#include <vector>

#include "kernels/deferred/state_place.h"
#include "lookup/occurrences.h"
#include "lookup/row_log.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace graph_opt {

// The log of a variable, in the resource manager of its device and the container of the variable.
class RowLogResource : public tensorflow::ResourceBase {
 public:
  RowLog* log() { return &log_; }

  std::string DebugString() const override { return "the rows that the last updates have written"; }

 private:
  RowLog log_;
};

// The attribute `row_logs`: where the variables of an op, or those of its shards, have their log.
class RowLogs {
 public:
  typedef tensorflow::core::RefCountPtr<RowLogResource> Pointer;

  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  bool empty() const { return places_.empty(); }
  int size() const { return static_cast<int>(places_.size()); }
  bool has(int i) const { return !places_[i].name.empty(); }

  // The log, which is made if there is none; null if the entry is empty.
  tensorflow::Status Find(tensorflow::OpKernelContext* ctx, int i, Pointer* log) const;

 private:
  std::vector<StatePlace> places_;
};

// Logs the updates of an op.
class UpdateLogs {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, int num_shards);

  // To be called when these lookups' rows have been written, or some of them. `first_shards` has
  // the index of each table's first shard, and the end.
  tensorflow::Status Append(tensorflow::OpKernelContext* ctx, const std::vector<int>& first_shards,
                            const std::vector<GradientTable>& tables,
                            const std::vector<PooledGradient>& lookups, Parallel* parallel) const;

 private:
  RowLogs logs_;
  int64_t kept_ = 0;  // updates that a log keeps
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_REFRESH_ROW_LOGS_H_
