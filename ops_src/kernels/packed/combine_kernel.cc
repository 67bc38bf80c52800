#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/packed/combining_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {
namespace {

class GroupCombineKernel : public CombiningKernel {
 public:
  explicit GroupCombineKernel(OpKernelConstruction* ctx) : CombiningKernel(ctx, "server") {}

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    PackedShards shards;
    OpInputList rows;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadShards(ctx, inputs, &shards));
    OP_REQUIRES_OK(ctx, ctx->input_list("rows", &rows));
    std::vector<SentRows> sent;
    for (const Tensor& one : rows) {
      sent.push_back(SentRows{one.tensor_data().data(), one.NumElements()});
    }
    OP_REQUIRES_OK(ctx, Combine(ctx, inputs, shards, sent));
  }
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingCombine").Device(tensorflow::DEVICE_CPU),
                        GroupCombineKernel);

}  // namespace
}  // namespace graph_opt
