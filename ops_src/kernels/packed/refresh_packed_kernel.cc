#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/packed/combining_kernel.h"
#include "kernels/packed/staged_rows_resource.h"
#include "kernels/refresh/refresh_counts.h"
#include "packed/staged_rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupRefreshPackedKernel : public CombiningKernel {
 public:
  explicit GroupRefreshPackedKernel(OpKernelConstruction* ctx) : CombiningKernel(ctx, "server") {
    OP_REQUIRES_OK(ctx, counts_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    PackedShards shards;
    std::shared_ptr<TakenRows> taken;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadShards(ctx, inputs, &shards));
    OP_REQUIRES_OK(ctx, GetShared(name(), ctx->input(num_inputs() - 1), &taken));
    if (taken->asks || !taken->sent.empty()) {
      OP_REQUIRES_OK(ctx, CombineSent(ctx, inputs, shards, taken->sent));
    } else {
      OP_REQUIRES_OK(ctx, Update(ctx, inputs, shards, *taken));
    }
  }

 private:
  // Pools rows that were asked for in this step, or `sent_before`, in the memory that the batch has
  // for that.
  Status CombineSent(OpKernelContext* ctx, const GroupInputs& inputs, const PackedShards& shards,
                     const std::vector<Tensor>& sent_before) const {
    std::vector<SentRows> sent;
    int first_read, end_read;
    for (int i = 0; i < num_servers(); ++i) {
      const Tensor& rows = sent_before.empty() ? ctx->input(i) : sent_before[i];
      sent.push_back(SentRows{rows.tensor_data().data(), rows.NumElements()});
    }
    TF_RETURN_IF_ERROR(InputRange("read", &first_read, &end_read));
    TF_RETURN_IF_ERROR(Combine(ctx, inputs, shards, sent, first_read));
    return counts_.Tell(ctx, attrs_, std::vector<bool>(attrs_.num_tables(), false), {});
  }

  // Refreshes what was pooled ahead.
  Status Update(OpKernelContext* ctx, const GroupInputs& inputs, const PackedShards& shards,
                const TakenRows& taken) const {
    if (taken.num_shards != static_cast<size_t>(attrs_.num_shards())) {
      return errors::InvalidArgument(name(), ": the batch was staged with rows of ",
                                     taken.num_shards, " shards, need ", attrs_.num_shards());
    }
    std::vector<Tensor> memory;
    TF_RETURN_IF_ERROR(OwnRows(ctx, taken.changes, &memory));
    std::vector<SentRows> sent;
    for (const Tensor& one : memory) {
      sent.push_back(SentRows{one.tensor_data().data(), one.NumElements()});
    }
    return Refresh(ctx, inputs, shards, sent, counts_, [&taken](NewRows* rows) {
      for (const StagedBatch::Change& one : taken.changes) {
        rows->Write(one.part, one.places, one.values);
      }
    });
  }

  // The rows that servers sent, in memory that may be written where rows have changed.
  Status OwnRows(OpKernelContext* ctx, const std::vector<StagedBatch::Change>& changes,
                 std::vector<Tensor>* rows) const {
    std::vector<bool> is_written(num_servers(), false);
    for (const StagedBatch::Change& change : changes) is_written[servers()[change.part]] = true;
    for (int i = 0; i < num_servers(); ++i) {
      const Tensor& sent = ctx->input(i);
      const std::unique_ptr<Tensor> own = is_written[i] ? Unshared(ctx, i) : nullptr;
      rows->push_back(own == nullptr ? sent : *own);
      if (!is_written[i] || own != nullptr) continue;
      TF_RETURN_IF_ERROR(ctx->allocate_temp(sent.dtype(), sent.shape(), &rows->back()));
      const tensorflow::StringPiece bytes = sent.tensor_data();
      std::memcpy(const_cast<char*>(rows->back().tensor_data().data()), bytes.data(), bytes.size());
    }
    return Status();
  }

  // An input whose memory nothing else needs; null if something does.
  static std::unique_ptr<Tensor> Unshared(OpKernelContext* ctx, int input) {
    return ctx->forward_input(input, OpKernelContext::Params::kNoReservation,
                              ctx->input_dtype(input), ctx->input(input).shape(),
                              ctx->input_memory_type(input), ctx->input_alloc_attr(input));
  }

  RefreshCounts counts_;
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingRefreshPacked").Device(tensorflow::DEVICE_CPU),
                        GroupRefreshPackedKernel);

}  // namespace
}  // namespace graph_opt
