#ifndef GRAPH_OPT_KERNELS_DEFERRED_ROW_STATE_H_
#define GRAPH_OPT_KERNELS_DEFERRED_ROW_STATE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "deferred/deferred_rows.h"
#include "kernels/deferred/shard_home.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/mutex.h"

namespace graph_opt {

// Up to which step the rows of a shard are current, in the resource manager of its device and the
// container of its variable. The first deferred update makes it. So whoever trains the variable
// shares it, and tf.Session.reset takes it along; it is dropped when the variable is found
// uninitialized or of another shape. Kernels take the locks of variables first, and wait for other
// updates after that.
class RowState : public tensorflow::ResourceBase {
 public:
  // Of a matrix.
  explicit RowState(const tensorflow::Tensor& shard)
      : rows_(shard.dim_size(0)), width_(shard.dim_size(1)) {
    Any()->store(true);
  }

  // Whether this process ever had a state, on any device.
  static bool any() { return Any()->load(std::memory_order_relaxed); }

  // False if the variable was made anew with another shape.
  bool Fits(const tensorflow::Tensor& shard) const {
    return shard.dims() == 2 && shard.dim_size(0) == rows_.num_rows() &&
           shard.dim_size(1) == width_;
  }

  DeferredRows* rows() { return &rows_; }

  // Where updates find the shard and its slots.
  ShardHome home() const {
    tensorflow::mutex_lock lock(moving_);
    return home_;
  }
  void MoveTo(const ShardHome& home) {
    tensorflow::mutex_lock lock(moving_);
    home_ = home;
  }
  bool has_home() const {
    tensorflow::mutex_lock lock(moving_);
    return !home_.empty();
  }
  // Whether an op, which has locked none of its inputs, finds them at home. It locks references to
  // look at them, so not under `moving_`: an update that has locked them calls MoveTo.
  bool IsHome(tensorflow::OpKernelContext* ctx, int num_shards, int num_slots, int shard) const {
    return home().HasInputs(ctx, num_shards, num_slots, shard);
  }

  // Counts the steps of sessions that write to the shard and do not defer its updates.
  int CountWrite() { return ++num_writes_; }

  std::string DebugString() const override {
    return "the steps of deferred updates of " + std::to_string(rows_.num_rows()) + " rows of " +
           std::to_string(width_);
  }

 private:
  static std::atomic<bool>* Any() {
    static std::atomic<bool> any{false};
    return &any;
  }

  DeferredRows rows_;
  const int64_t width_;
  mutable tensorflow::mutex moving_;
  ShardHome home_;
  std::atomic<int> num_writes_{0};
};

// Beside the RowState of a table, one for each slot: whoever reads the slot alone needs it, too.
class SlotState : public tensorflow::ResourceBase {
 public:
  SlotState(const std::string& container, const std::string& name)
      : container_(container), name_(name) {}

  // Where the RowState is.
  const std::string& container() const { return container_; }
  const std::string& name() const { return name_; }

  std::string DebugString() const override { return "a slot of " + name_; }

 private:
  const std::string container_;
  const std::string name_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_ROW_STATE_H_
