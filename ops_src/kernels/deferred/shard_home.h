#ifndef GRAPH_OPT_KERNELS_DEFERRED_SHARD_HOME_H_
#define GRAPH_OPT_KERNELS_DEFERRED_SHARD_HOME_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/lookup/variable_tables.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

// Where a shard and its slots are, for ops that do not have them as inputs.
class ShardHome {
 public:
  ShardHome() = default;

  // One of the `num_shards` first inputs of an op, and its slots: the first slot of every shard,
  // then the second slot of every shard, ... `variables` holds all of these.
  ShardHome(tensorflow::OpKernelContext* ctx, const VariableTables& variables, int num_shards,
            int num_slots, int shard, bool averaged = false);

  // Of the shard and its slots; 0 if nothing is known.
  int size() const { return static_cast<int>(references_.size() + handles_.size()); }
  // Whether the last slot is an average.
  bool averaged() const { return averaged_; }
  bool empty() const { return references_.empty() && handles_.empty(); }

  // Whether the same inputs of an op, which has locked none of them, are here.
  bool HasInputs(tensorflow::OpKernelContext* ctx, int num_shards, int num_slots, int shard) const;

  // Gives `variables` the shard and then its slots, to be updated.
  tensorflow::Status Open(tensorflow::OpKernelContext* ctx, VariableTables* variables) const;

 private:
  std::vector<tensorflow::Tensor> references_;  // they keep their memory for as long as they live
  std::vector<VariableTables::Name> handles_;
  bool averaged_ = false;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_SHARD_HOME_H_
