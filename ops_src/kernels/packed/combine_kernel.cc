#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/packed/combining_kernel.h"
#include "kernels/threads/stage_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {
namespace {

class GroupCombineKernel : public CombiningKernel {
 public:
  explicit GroupCombineKernel(OpKernelConstruction* ctx) : CombiningKernel(ctx, "server") {}

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

  Status Run(OpKernelContext* ctx) {
    GroupInputs inputs;
    PackedShards shards;
    OpInputList rows;
    TF_RETURN_IF_ERROR(inputs.Read(ctx, attrs_));
    TF_RETURN_IF_ERROR(ReadShards(ctx, inputs, &shards));
    TF_RETURN_IF_ERROR(ctx->input_list("rows", &rows));
    std::vector<SentRows> sent;
    bool has_rows = false;
    for (const Tensor& one : rows) {
      sent.push_back(SentRows{one.tensor_data().data(), one.NumElements()});
      has_rows |= one.NumElements() > 0;
    }
    if (shards.counts[0] == kNotAskedYet && !has_rows) return AllocateOnly(ctx, inputs);
    TF_RETURN_IF_ERROR(Combine(ctx, inputs, shards, sent));
    return Status();
  }
};

GRAPH_OPT_REGISTER_STAGE_KERNEL("GroupEmbeddingCombine", GroupCombineKernel);

}  // namespace
}  // namespace graph_opt
