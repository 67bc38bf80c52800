#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exchange/changed_rows.h"
#include "kernels/exchange/owner_kernel.h"
#include "kernels/exchange/receiver_kernel.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/packed/served_shards.h"
#include "kernels/refresh/missed_rows.h"
#include "kernels/refresh/refresh_counts.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class ExchangeChangedRowsKernel : public OwnerKernel<OpKernel> {
 public:
  explicit ExchangeChangedRowsKernel(OpKernelConstruction* ctx) : OwnerKernel(ctx) {
    OP_REQUIRES_OK(ctx, missed_.Read(ctx, num_shards()));
  }

  void Compute(OpKernelContext* ctx) override {
    VariableTables tensors;
    ReceivedRequests received;
    ServedShards mine;
    std::vector<RowSet> changed;
    // Before the rows are read: what is written meanwhile need not be sent.
    OP_REQUIRES_OK(ctx, missed_.Find(ctx, served(), &changed));
    OP_REQUIRES_OK(ctx, tensors.Open(ctx, 0, num_shards(), VariableTables::kRead));
    for (int i = 0; i < num_shards(); ++i) OP_REQUIRES_OK(ctx, CheckShard(tensors, i));
    for (int i : served()) mine.Add(tensors, i, table_name(i));
    const std::vector<ServedShard>& shards = mine.shards();
    OP_REQUIRES_OK(ctx, ReadReceived(ctx, shards, &received));
    DeviceThreads threads(ctx, mine.BytesOf(tensors, received.ranks));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), mine.FindRows(tensors, &received.ranks, &threads)));
    ChangedRowsForRanks message(shards, received, changed, type(), &threads);
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), message.Find()));
    int64_t words = 0;
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, WriteSplits(ctx, name(), 1, message.WordsOfRanks(), &words));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({words}), &output));
    message.Write(reinterpret_cast<int64_t*>(output->flat<tensorflow::int64>().data()));
  }

 private:
  MissedRows missed_;
};

class ExchangeRefreshKernel : public ReceiverKernel {
 public:
  explicit ExchangeRefreshKernel(OpKernelConstruction* ctx) : ReceiverKernel(ctx) {
    OP_REQUIRES_OK(ctx, counts_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    PackedShards shards;
    std::vector<ReceivedChanges> changes;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadShards(ctx, inputs, &shards));
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      OP_REQUIRES(ctx, !IsPooled(shards, t),
                  errors::InvalidArgument(name(), ": the owner of table '", attrs_.table_names[t],
                                          "' has pooled its bags; need pool_on_server 'never'"));
    }
    OP_REQUIRES_OK(ctx, Receive(ctx, shards, &changes));
    int first_read, end_read;
    OP_REQUIRES_OK(ctx, InputRange("read", &first_read, &end_read));
    Tensor rows;
    OP_REQUIRES_OK(ctx, OutputRows(ctx, end_read - first_read, changes.empty(), &rows));
    std::vector<SentRows> sent;
    OP_REQUIRES_OK(ctx, ReadSent(ctx, rows, &sent));
    OP_REQUIRES_OK(ctx, Refresh(ctx, inputs, shards, sent, counts_, [&changes](NewRows* fresh) {
                     for (const ReceivedChanges& one : changes) {
                       fresh->Write(one.shard, one.places, one.values);
                     }
                   }));
  }

 private:
  Status Receive(OpKernelContext* ctx, const PackedShards& shards,
                 std::vector<ReceivedChanges>* changes) const {
    const Tensor* message = nullptr;
    const Tensor* splits = nullptr;
    TF_RETURN_IF_ERROR(ctx->input("changed", &message));
    TF_RETURN_IF_ERROR(ctx->input("changed_splits", &splits));
    std::vector<RequestWords> requests;
    OpInputList sent;
    TF_RETURN_IF_ERROR(ctx->input_list("requests", &sent));
    for (const Tensor& one : sent) {
      requests.push_back(
          RequestWords{reinterpret_cast<const int64_t*>(one.flat<tensorflow::int64>().data()),
                       one.NumElements()});
    }
    const auto numbers = splits->flat<tensorflow::int32>();
    std::vector<int64_t> sizes;
    for (int64_t rank = 0; rank < splits->NumElements(); ++rank) sizes.push_back(numbers(rank));
    return StatusOfOp(
        name(),
        ReadChanges(reinterpret_cast<const int64_t*>(message->flat<tensorflow::int64>().data()),
                    message->NumElements(), sizes, requests, shards, type(), changes));
  }

  // The rows as output number `output`, in memory that may be written unless nothing changes.
  Status OutputRows(OpKernelContext* ctx, int output, bool nothing_changes, Tensor* rows) const {
    if (nothing_changes) {
      *rows = ctx->input(0);
      ctx->set_output(output, *rows);
      return Status();
    }
    Tensor* own = nullptr;
    const TensorShape shape = ctx->input(0).shape();
    if (!ctx->forward_input_to_output_with_shape(0, output, shape, &own)) {
      TF_RETURN_IF_ERROR(ctx->allocate_output(output, shape, &own));
      const tensorflow::StringPiece bytes = ctx->input(0).tensor_data();
      std::memcpy(const_cast<char*>(own->tensor_data().data()), bytes.data(), bytes.size());
    }
    *rows = *own;
    return Status();
  }

  RefreshCounts counts_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("ExchangeChangedRows"), ExchangeChangedRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceExchangeChangedRows"), ExchangeChangedRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("ExchangeRefresh"), ExchangeRefreshKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
