#include "kernels/deferred/row_states.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

// Without a deferred update no rows are left behind.
class BringToDateKernel : public OpKernel {
 public:
  explicit BringToDateKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_shards;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_shards", &num_shards));
    OP_REQUIRES_OK(ctx, states_.Read(ctx, num_shards, false));
  }

  void Compute(OpKernelContext*) override {}

 private:
  RowStates states_;
};

#define CPU(op)                                                                        \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), BringToDateKernel); \
  REGISTER_KERNEL_BUILDER(Name("Resource" op).Device(tensorflow::DEVICE_CPU), BringToDateKernel)
CPU("GroupEmbeddingBringToDate");
CPU("GroupEmbeddingBringPackedToDate");
CPU("GroupEmbeddingBringAllToDate");
#undef CPU

}  // namespace
}  // namespace graph_opt
