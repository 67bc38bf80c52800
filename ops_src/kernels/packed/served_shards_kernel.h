#ifndef GRAPH_OPT_KERNELS_PACKED_SERVED_SHARDS_KERNEL_H_
#define GRAPH_OPT_KERNELS_PACKED_SERVED_SHARDS_KERNEL_H_

#include <string>
#include <vector>

#include "kernels/lookup/variable_tables.h"
#include "kernels/tensorflow_compat.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

// An op over shards that are served to others.
template <typename Kernel>
class ServedShardsKernel : public Kernel {
 public:
  explicit ServedShardsKernel(tensorflow::OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_shards", &num_shards_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_names", &table_names_));
    OP_REQUIRES_OK(ctx, CheckSize("table_names", table_names_.size()));
  }

 protected:
  using Kernel::name;

  int num_shards() const { return num_shards_; }
  const std::string& table_name(int shard) const { return table_names_[shard]; }

  // Fails where an attribute does not have an entry for each shard.
  tensorflow::Status CheckSize(const char* attribute, size_t size) const {
    if (size == static_cast<size_t>(num_shards_)) return tensorflow::Status();
    return tensorflow::errors::InvalidArgument(name(), ": ", attribute, " has ", size,
                                               " entries, need one for each of the ", num_shards_,
                                               " shards");
  }

  // Fails where an input is not a shard of rows of this type and, unless it is -1, width.
  tensorflow::Status CheckShard(const VariableTables& variables, int shard,
                                tensorflow::DataType dtype, int64_t width = -1) const {
    const tensorflow::Tensor& tensor = variables[shard];
    const bool is_matrix = (variables.dynamic_table(shard) != nullptr || tensor.dims() == 2) &&
                           (width < 0 || variables.memory(shard).dim == width);
    if (is_matrix && tensor.dtype() == dtype) return tensorflow::Status();
    return tensorflow::errors::InvalidArgument(
        name(), ": shard ", shard, " (table '", table_name(shard), "') has shape ",
        tensor.shape().DebugString(), " and type ", tensorflow::DataTypeString(tensor.dtype()),
        "; need [rows, ", width < 0 ? "width" : std::to_string(width), "] of ",
        tensorflow::DataTypeString(dtype));
  }

 private:
  int num_shards_ = 0;
  std::vector<std::string> table_names_;
  ScratchUser scratch_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_PACKED_SERVED_SHARDS_KERNEL_H_
