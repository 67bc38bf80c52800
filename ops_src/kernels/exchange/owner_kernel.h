#ifndef GRAPH_OPT_KERNELS_EXCHANGE_OWNER_KERNEL_H_
#define GRAPH_OPT_KERNELS_EXCHANGE_OWNER_KERNEL_H_

#include <string>
#include <vector>

#include "exchange/received_requests.h"
#include "kernels/exchange/splits.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/tensorflow_compat.h"
#include "packed/row_request.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

// An op over the shards that a rank serves to all ranks.
template <typename Kernel>
class OwnerKernel : public Kernel {
 public:
  explicit OwnerKernel(tensorflow::OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_shards", &num_shards_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_names", &table_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_widths", &widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("served", &served_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("by_key", &by_key_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(ctx, RowTypeOf(dtype_, &type_));
    const size_t shards = num_shards_;
    if (by_key_.empty()) by_key_.assign(shards, false);
    OP_REQUIRES(ctx, by_key_.size() == shards,
                tensorflow::errors::InvalidArgument(name(), ": by_key has ", by_key_.size(),
                                                    " entries, need one for each of the ", shards,
                                                    " shards"));
    OP_REQUIRES(ctx, table_names_.size() == shards && widths_.size() == shards,
                tensorflow::errors::InvalidArgument(
                    name(), ": table_names has ", table_names_.size(), " entries and table_widths ",
                    widths_.size(), ", need one for each of the ", num_shards_, " shards"));
    for (int shard : served_) {
      OP_REQUIRES(ctx, shard >= 0 && shard < num_shards_,
                  tensorflow::errors::InvalidArgument(name(), ": served names shard ", shard,
                                                      " of ", num_shards_));
    }
  }

 protected:
  using Kernel::name;

  int num_shards() const { return num_shards_; }
  const std::vector<int>& served() const { return served_; }
  tensorflow::DataType dtype() const { return dtype_; }
  RowType type() const { return type_; }
  int64_t width(int shard) const { return widths_[shard]; }
  const std::string& table_name(int shard) const { return table_names_[shard]; }
  bool IsByKey(int shard) const { return by_key_[shard]; }

  // The requests for the shards that are served.
  tensorflow::Status ReadReceived(tensorflow::OpKernelContext* ctx,
                                  const std::vector<ServedShard>& shards,
                                  ReceivedRequests* received) const {
    const tensorflow::Tensor* requests = nullptr;
    std::vector<int64_t> splits;
    TF_RETURN_IF_ERROR(ctx->input("requests", &requests));
    TF_RETURN_IF_ERROR(ReadSplits(ctx, name(), &splits));
    return StatusOfOp(
        name(),
        ReadRequests(reinterpret_cast<const int64_t*>(requests->flat<tensorflow::int64>().data()),
                     requests->NumElements(), splits, shards, received));
  }

  // Fails where an input is not the shard that the attributes describe.
  tensorflow::Status CheckShard(const VariableTables& tensors, int shard) const {
    const tensorflow::Tensor& tensor = tensors[shard];
    const bool is_dynamic = tensors.dynamic_table(shard) != nullptr;
    if (is_dynamic != IsByKey(shard)) {
      return tensorflow::errors::InvalidArgument(
          name(), ": shard ", shard, " (table '", table_name(shard), "') is ",
          is_dynamic ? "" : "not ", "a dynamic table, and its rows are asked for by ",
          is_dynamic ? "number" : "key");
    }
    const bool is_matrix =
        (is_dynamic || tensor.dims() == 2) && tensors.memory(shard).dim == width(shard);
    if (is_matrix && tensor.dtype() == dtype()) return tensorflow::Status();
    return tensorflow::errors::InvalidArgument(
        name(), ": shard ", shard, " (table '", table_name(shard), "') has shape ",
        tensor.shape().DebugString(), " and type ", tensorflow::DataTypeString(tensor.dtype()),
        "; need [rows, ", width(shard), "] of ", tensorflow::DataTypeString(dtype()));
  }

 private:
  int num_shards_ = 0;
  std::vector<std::string> table_names_;
  std::vector<tensorflow::int64> widths_;
  std::vector<int> served_;
  std::vector<bool> by_key_;
  tensorflow::DataType dtype_ = tensorflow::DT_FLOAT;
  RowType type_ = RowType::kFloat;
  ScratchUser scratch_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXCHANGE_OWNER_KERNEL_H_
