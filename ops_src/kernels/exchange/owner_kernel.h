#ifndef GRAPH_OPT_KERNELS_EXCHANGE_OWNER_KERNEL_H_
#define GRAPH_OPT_KERNELS_EXCHANGE_OWNER_KERNEL_H_

#include <vector>

#include "exchange/received_requests.h"
#include "kernels/exchange/splits.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/packed/served_shards_kernel.h"
#include "kernels/tensorflow_compat.h"
#include "packed/row_request.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

// An op over the shards that a rank serves to all ranks.
template <typename Kernel>
class OwnerKernel : public ServedShardsKernel<Kernel> {
 public:
  explicit OwnerKernel(tensorflow::OpKernelConstruction* ctx) : ServedShardsKernel<Kernel>(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_widths", &widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("served", &served_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("by_key", &by_key_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
    OP_REQUIRES_OK(ctx, RowTypeOf(dtype_, &type_));
    if (by_key_.empty()) by_key_.assign(num_shards(), false);
    OP_REQUIRES_OK(ctx, this->CheckSize("by_key", by_key_.size()));
    OP_REQUIRES_OK(ctx, this->CheckSize("table_widths", widths_.size()));
    for (int shard : served_) {
      OP_REQUIRES(ctx, shard >= 0 && shard < num_shards(),
                  tensorflow::errors::InvalidArgument(name(), ": served names shard ", shard,
                                                      " of ", num_shards()));
    }
  }

 protected:
  using Kernel::name;
  using ServedShardsKernel<Kernel>::num_shards;
  using ServedShardsKernel<Kernel>::table_name;

  const std::vector<int>& served() const { return served_; }
  tensorflow::DataType dtype() const { return dtype_; }
  RowType type() const { return type_; }
  int64_t width(int shard) const { return widths_[shard]; }
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

  // The gradients of the rows that were asked for.
  tensorflow::Status ReadGradients(tensorflow::OpKernelContext* ctx,
                                   const std::vector<ServedShard>& shards,
                                   const ReceivedRequests& received,
                                   const tensorflow::Tensor** gradients) const {
    int64_t size = 0;
    for (int64_t elements : ElementsOfRanks(shards, received)) size += elements;
    TF_RETURN_IF_ERROR(ctx->input("gradients", gradients));
    if ((*gradients)->NumElements() == size) return tensorflow::Status();
    return tensorflow::errors::InvalidArgument(name(), ": ", (*gradients)->NumElements(),
                                               " gradients, the rows that were asked for have ",
                                               size, " elements");
  }

  // Fails where an input is not the shard that the attributes describe.
  tensorflow::Status CheckShard(const VariableTables& tensors, int shard) const {
    const bool is_dynamic = tensors.dynamic_table(shard) != nullptr;
    if (is_dynamic != IsByKey(shard)) {
      return tensorflow::errors::InvalidArgument(
          name(), ": shard ", shard, " (table '", table_name(shard), "') is ",
          is_dynamic ? "" : "not ", "a dynamic table, and its rows are asked for by ",
          is_dynamic ? "number" : "key");
    }
    return ServedShardsKernel<Kernel>::CheckShard(tensors, shard, dtype(), width(shard));
  }

 private:
  std::vector<tensorflow::int64> widths_;
  std::vector<int> served_;
  std::vector<bool> by_key_;
  tensorflow::DataType dtype_ = tensorflow::DT_FLOAT;
  RowType type_ = RowType::kFloat;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXCHANGE_OWNER_KERNEL_H_
