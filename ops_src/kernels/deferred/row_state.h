#ifndef GRAPH_OPT_KERNELS_DEFERRED_ROW_STATE_H_
#define GRAPH_OPT_KERNELS_DEFERRED_ROW_STATE_H_

#include <cstdint>
#include <string>

#include "deferred/deferred_rows.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

// Up to which step the rows of a shard are current, in the resource manager of its device and the
// container of its variable. The first deferred update makes it.
class RowState : public tensorflow::ResourceBase {
 public:
  // Of a matrix.
  explicit RowState(const tensorflow::Tensor& shard)
      : rows_(shard.dim_size(0)), width_(shard.dim_size(1)) {}

  // False if the variable was made anew with another shape.
  bool Fits(const tensorflow::Tensor& shard) const {
    return shard.dims() == 2 && shard.dim_size(0) == rows_.num_rows() &&
           shard.dim_size(1) == width_;
  }

  DeferredRows* rows() { return &rows_; }

  std::string DebugString() const override {
    return "the steps of deferred updates of " + std::to_string(rows_.num_rows()) + " rows of " +
           std::to_string(width_);
  }

 private:
  DeferredRows rows_;
  const int64_t width_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DEFERRED_ROW_STATE_H_
