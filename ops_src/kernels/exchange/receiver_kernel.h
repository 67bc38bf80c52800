#ifndef GRAPH_OPT_KERNELS_EXCHANGE_RECEIVER_KERNEL_H_
#define GRAPH_OPT_KERNELS_EXCHANGE_RECEIVER_KERNEL_H_

#include <vector>

#include "kernels/packed/combining_kernel.h"
#include "lookup/group_gradient.h"
#include "packed/row_request.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// An op on the rows that all ranks sent.
class ReceiverKernel : public CombiningKernel {
 public:
  explicit ReceiverKernel(tensorflow::OpKernelConstruction* ctx) : CombiningKernel(ctx, "rank") {}

 protected:
  // What each rank has sent, of `rows` and the input `splits`.
  tensorflow::Status ReadSent(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& rows,
                              std::vector<SentRows>* sent) const;

  // The gradients of the pooled rows, whose ids are those of the rows that were sent.
  tensorflow::Status ReadNumbered(tensorflow::OpKernelContext* ctx, const GroupInputs& inputs,
                                  const PackedShards& shards,
                                  std::vector<PooledGradient>* lookups) const;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXCHANGE_RECEIVER_KERNEL_H_
