#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exchange/all_to_all_group.h"
#include "exchange/sent_messages.h"
#include "kernels/cancelled_step.h"
#include "kernels/exchange/splits.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"
#include "threads/stage_thread.h"

namespace graph_opt {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
namespace errors = tensorflow::errors;

// Tells the group when the step of a call is cancelled.
class CallCancellation {
 public:
  CallCancellation(std::shared_ptr<AllToAllGroup> group, AllToAllGroup::Call call,
                   CancellationManager* manager)
      : group_(std::move(group)), call_(std::move(call)), manager_(manager) {}

  // Returns false if the step is cancelled already.
  static bool Arm(const std::shared_ptr<CallCancellation>& of) {
    if (of->manager_ == nullptr) return true;
    of->token_ = of->manager_->get_cancellation_token();
    return of->manager_->RegisterCallback(of->token_, [of] {
      of->cancelled_ = true;
      of->group_->Cancel(of->call_);
    });
  }

  // The call has been sent: a cancellation in the meantime did not find it.
  void Sent() {
    if (cancelled_) group_->Cancel(call_);
  }

  // DeregisterCallback would wait for a running cancellation, which may be what ended the call.
  void Disarm() {
    if (manager_ != nullptr) manager_->TryDeregisterCallback(token_);
  }

 private:
  const std::shared_ptr<AllToAllGroup> group_;
  const AllToAllGroup::Call call_;
  CancellationManager* const manager_;
  tensorflow::CancellationToken token_ = 0;
  std::atomic<bool> cancelled_{false};
};

class InProcessAllToAllKernel : public AsyncOpKernel {
 public:
  explicit InProcessAllToAllKernel(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    std::string group;
    int size;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rank", &rank_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("size", &size));
    group_ = AllToAllGroup::OfProcess(group, size);
    OP_REQUIRES(ctx, group_->size() == size && rank_ < size,
                errors::InvalidArgument(name(), ": rank ", rank_, " of ", size, " in group '",
                                        group, "', which has ", group_->size(), " ranks"));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("message", &message_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("timeout_millis", &timeout_millis_));
    sent_ = SentMessages(absl::StrCat(group, "/", rank_, "/", message_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    if (!OnStageThread()) return Send(ctx, std::move(done));
    CallEnd end;  // a stage's own thread continues its step itself
    Send(ctx, [&end] { end.Notify(); });
    end.Wait();
    done();
  }

 private:
  void Send(OpKernelContext* ctx, DoneCallback done) {
    AllToAllGroup::Message message;
    const Status read = Read(ctx, &message);
    if (!read.ok()) {
      const absl::Status status = FromTensorFlow(read);
      group_->Fail(absl::Status(status.code(),
                                absl::StrCat("rank ", rank_, ": ", std::string(status.message()))));
      ctx->SetStatus(read);
      return done();
    }
    const AllToAllGroup::Call call = group_->NewCall(message_, rank_);
    const auto cancellation =
        std::make_shared<CallCancellation>(group_, call, ctx->cancellation_manager());
    if (!CallCancellation::Arm(cancellation)) {
      group_->Fail(absl::UnknownError(
          absl::StrCat("rank ", rank_, " was cancelled before message '", message_, "'")));
      ctx->SetStatus(StepIsCancelled(*ctx));
      return done();
    }
    const int rank = rank_;
    const std::string& op = name();
    ++*sent_;
    group_->Send(
        call, std::move(message), timeout_millis_,
        [ctx, rank, &op, cancellation, done](const absl::Status& status,
                                             const std::vector<AllToAllGroup::Message>& messages) {
          cancellation->Disarm();
          ctx->SetStatus(status.ok() ? Receive(ctx, op, rank, messages) : StatusOfOp(op, status));
          done();
        });
    cancellation->Sent();
  }

  Status Read(OpKernelContext* ctx, AllToAllGroup::Message* message) const {
    const Tensor& tensor = ctx->input(0);
    TF_RETURN_IF_ERROR(ReadSplits(ctx, name(), &message->splits));
    int64_t rows = 0;
    for (int64_t count : message->splits) rows += count;
    if (tensor.dims() < 1 || rows != tensor.dim_size(0) ||
        message->splits.size() != static_cast<size_t>(group_->size())) {
      return errors::InvalidArgument(name(), ": ", message->splits.size(), " splits of ", rows,
                                     " rows in all, for a tensor of shape ",
                                     tensor.shape().DebugString(), " and ", group_->size(),
                                     " ranks");
    }
    TensorShape row = tensor.shape();
    row.RemoveDim(0);
    const auto owner = std::make_shared<Tensor>(tensor);
    message->data = owner->tensor_data().data();
    message->owner = owner;
    message->row_bytes = row.num_elements() * tensorflow::DataTypeSize(tensor.dtype());
    message->kind = absl::StrCat("rows of ", tensorflow::DataTypeString(tensor.dtype()), " ",
                                 row.DebugString());
    return Status();
  }

  static Status Receive(OpKernelContext* ctx, const std::string& op, int rank,
                        const std::vector<AllToAllGroup::Message>& messages) {
    std::vector<int64_t> splits;
    for (const AllToAllGroup::Message& message : messages) splits.push_back(message.splits[rank]);
    int64_t rows = 0;
    TF_RETURN_IF_ERROR(WriteSplits(ctx, op, 1, splits, &rows));
    TensorShape shape = ctx->input(0).shape();
    shape.set_dim(0, rows);
    Tensor* received = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, shape, &received));
    char* to = const_cast<char*>(received->tensor_data().data());
    for (const AllToAllGroup::Message& message : messages) {
      int64_t first = 0;
      for (int other = 0; other < rank; ++other) first += message.splits[other];
      const int64_t bytes = message.splits[rank] * message.row_bytes;
      if (bytes > 0) std::memcpy(to, message.data + first * message.row_bytes, bytes);
      to += bytes;
    }
    return Status();
  }

  std::shared_ptr<AllToAllGroup> group_;
  int rank_ = 0;
  std::string message_;
  tensorflow::int64 timeout_millis_ = 0;
  std::atomic<int64_t>* sent_ = nullptr;
};

REGISTER_KERNEL_BUILDER(Name("InProcessAllToAll").Device(tensorflow::DEVICE_CPU),
                        InProcessAllToAllKernel);

}  // namespace
}  // namespace graph_opt
