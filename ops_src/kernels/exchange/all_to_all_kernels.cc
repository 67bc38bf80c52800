#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exchange/all_to_all_group.h"
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

// The rank of a group that an op acts for.
struct Member {
  Status Read(OpKernelConstruction* ctx) {
    std::string name;
    int size;
    TF_RETURN_IF_ERROR(ctx->GetAttr("group", &name));
    TF_RETURN_IF_ERROR(ctx->GetAttr("rank", &rank));
    TF_RETURN_IF_ERROR(ctx->GetAttr("size", &size));
    group = AllToAllGroup::OfProcess(name, size);
    if (group->size() == size && rank < size) return Status();
    return errors::InvalidArgument(ctx->def().name(), ": rank ", rank, " of ", size, " in group '",
                                   name, "', which has ", group->size(), " ranks");
  }

  std::shared_ptr<AllToAllGroup> group;
  int rank = 0;
};

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
    OP_REQUIRES_OK(ctx, member_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("message", &message_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("timeout_millis", &timeout_millis_));
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
      member_.group->Fail(absl::Status(
          status.code(), absl::StrCat("rank ", member_.rank, ": ", std::string(status.message()))));
      ctx->SetStatus(read);
      return done();
    }
    const AllToAllGroup::Call call = member_.group->NewCall(message_, member_.rank);
    const auto cancellation =
        std::make_shared<CallCancellation>(member_.group, call, ctx->cancellation_manager());
    if (!CallCancellation::Arm(cancellation)) {
      ctx->SetStatus(errors::Cancelled(name(), ": the step is cancelled"));
      return done();
    }
    const int rank = member_.rank;
    const std::string& op = name();
    member_.group->Send(
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
        message->splits.size() != static_cast<size_t>(member_.group->size())) {
      return errors::InvalidArgument(name(), ": ", message->splits.size(), " splits of ", rows,
                                     " rows in all, for a tensor of shape ",
                                     tensor.shape().DebugString(), " and ", member_.group->size(),
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

  Member member_;
  std::string message_;
  tensorflow::int64 timeout_millis_ = 0;
};

class InProcessGroupFailKernel : public OpKernel {
 public:
  explicit InProcessGroupFailKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, member_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("error", &error_));
  }

  void Compute(OpKernelContext*) override {
    member_.group->Fail(absl::UnknownError(absl::StrCat("rank ", member_.rank, " ", error_)));
  }

 private:
  Member member_;
  std::string error_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("InProcessAllToAll"), InProcessAllToAllKernel);
REGISTER_KERNEL_BUILDER(CPU("InProcessGroupFail"), InProcessGroupFailKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
