#ifndef GRAPH_OPT_KERNELS_DEFERRED_ROW_STATES_H_
#define GRAPH_OPT_KERNELS_DEFERRED_ROW_STATES_H_

#include <string>
#include <vector>

#include "kernels/deferred/row_state.h"
#include "kernels/deferred/state_place.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

// The attribute `row_states`: where the shards of an op, whose first input is one of them, have
// their RowState.
class RowStates {
 public:
  typedef tensorflow::core::RefCountPtr<RowState> Pointer;

  enum Of { kUpdate, kReader };

  // Fails unless there is an entry for each shard, or for an update none at all. A reader's entry
  // is empty if the shard is not deferred.
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx, int num_shards, Of of);

  bool empty() const { return places_.empty(); }
  int size() const { return static_cast<int>(places_.size()); }

  // That of a shard, or null if it has none.
  Pointer Find(tensorflow::OpKernelContext* ctx, int shard) const;

  // Makes it if there is none for a table of this shape.
  tensorflow::Status FindOrMake(tensorflow::OpKernelContext* ctx, int shard,
                                const tensorflow::Tensor& table, Pointer* state) const;

  // Prepares an update, which has locked none of its inputs yet: what another optimizer left behind
  // of its shards, with other slots, is caught up there.
  tensorflow::Status CatchUpOthers(tensorflow::OpKernelContext* ctx, int num_slots) const;

  // Notes where the update of a shard finds it and its slots.
  tensorflow::Status MoveTo(tensorflow::OpKernelContext* ctx, int shard, const ShardHome& home,
                            RowState* state) const;

  // Rows are then taken for current.
  void Drop(tensorflow::OpKernelContext* ctx, int shard) const;

 private:
  std::vector<StatePlace> places_;
  std::vector<StatePlace> slots_;  // as the slots of the op; empty if they have no names
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_ROW_STATES_H_
