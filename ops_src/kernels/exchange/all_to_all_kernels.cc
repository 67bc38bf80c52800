#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exchange/all_to_all_group.h"
#include "exchange/explained_failures.h"
#include "exchange/horovod_messages.h"
#include "exchange/in_process_messages.h"
#include "exchange/rank_messages.h"
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

// Tells a call when its step is cancelled.
class CallCancellation {
 public:
  CallCancellation(std::shared_ptr<RankMessages::Call> call, CancellationManager* manager)
      : call_(std::move(call)), manager_(manager) {}

  // Returns false if the step is cancelled already.
  static bool Arm(const std::shared_ptr<CallCancellation>& of) {
    if (of->manager_ == nullptr) return true;
    of->token_ = of->manager_->get_cancellation_token();
    return of->manager_->RegisterCallback(of->token_, [of] {
      of->cancelled_ = true;
      of->call_->Cancel();
    });
  }

  // The call has been sent: a cancellation in the meantime did not find it.
  void Sent() {
    if (cancelled_) call_->Cancel();
  }

  // DeregisterCallback would wait for a running cancellation, which may be what ended the call.
  void Disarm() {
    if (manager_ != nullptr) manager_->TryDeregisterCallback(token_);
  }

 private:
  const std::shared_ptr<RankMessages::Call> call_;
  CancellationManager* const manager_;
  tensorflow::CancellationToken token_ = 0;
  std::atomic<bool> cancelled_{false};
};

// How elements travel, those of complex128 as two.
constexpr int kMostCarriedBytes = 8;

CarriedAs Carrier(DataType type, int element_bytes) {
  switch (type) {
    case tensorflow::DT_UINT8:
      return CarriedAs::kUint8;
    case tensorflow::DT_INT8:
      return CarriedAs::kInt8;
    case tensorflow::DT_UINT16:
      return CarriedAs::kUint16;
    case tensorflow::DT_INT16:
      return CarriedAs::kInt16;
    case tensorflow::DT_INT32:
      return CarriedAs::kInt32;
    case tensorflow::DT_HALF:
      return CarriedAs::kFloat16;
    case tensorflow::DT_FLOAT:
      return CarriedAs::kFloat32;
    case tensorflow::DT_DOUBLE:
      return CarriedAs::kFloat64;
    case tensorflow::DT_BOOL:
      return CarriedAs::kBool;
    default:
      if (element_bytes == 2) return CarriedAs::kUint16;
      return element_bytes == 4 ? CarriedAs::kInt32 : CarriedAs::kInt64;
  }
}

class ExchangeAllToAllKernel : public AsyncOpKernel {
 public:
  explicit ExchangeAllToAllKernel(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    std::string group;
    tensorflow::int64 timeout_millis;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("group", &group));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("rank", &rank_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("size", &size_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("message", &message_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("timeout_millis", &timeout_millis));
    OP_REQUIRES(ctx, rank_ < size_,
                errors::InvalidArgument(name(), ": rank ", rank_, " of ", size_, " ranks"));
    sent_ = SentMessages(absl::StrCat(group, "/", rank_, "/", message_));
    if (group.empty()) {
      messages_.reset(new HorovodMessages);
      return;
    }
    const std::shared_ptr<AllToAllGroup> ranks = AllToAllGroup::OfProcess(group, size_);
    OP_REQUIRES(ctx, ranks->size() == size_,
                errors::InvalidArgument(name(), ": rank ", rank_, " of ", size_, " in group '",
                                        group, "', which has ", ranks->size(), " ranks"));
    messages_.reset(new InProcessMessages(ranks, rank_, timeout_millis));
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
    RankMessage message;
    const Status read = Read(ctx, &message);
    if (!read.ok()) {
      const absl::Status status = FromTensorFlow(read);
      messages_->Fail(absl::Status(status.code(), absl::StrCat(": ", status.message())));
      ctx->SetStatus(read);
      return done();
    }
    const std::shared_ptr<RankMessages::Call> call = messages_->NewCall(message_);
    const auto cancellation = std::make_shared<CallCancellation>(
        call, messages_->can_cancel() ? ctx->cancellation_manager() : nullptr);
    if (!CallCancellation::Arm(cancellation)) {
      messages_->Fail(
          absl::UnknownError(absl::StrCat(" was cancelled before message '", message_, "'")));
      ctx->SetStatus(StepIsCancelled(*ctx));
      return done();
    }
    ++*sent_;
    call->Send(
        std::move(message),
        [ctx](int64_t rows, char** memory) { return Allocate(ctx, rows, memory); },
        [this, ctx, cancellation, done](const absl::Status& status,
                                        const std::vector<int64_t>& splits) {
          cancellation->Disarm();
          if (!status.ok()) return Fail(ctx, status, done);
          int64_t rows = 0;
          ctx->SetStatus(WriteSplits(ctx, name(), 1, splits, &rows));
          done();
        });
    cancellation->Sent();
  }

  // Of one of Horovod's ranks, others have learnt why; those of a process say it themselves.
  void Fail(OpKernelContext* ctx, const absl::Status& status, const DoneCallback& done) {
    const Status error = StatusOfOp(name(), status);
    const auto end = [ctx, done](const absl::Status& cause) {
      ctx->SetStatus(ToTensorFlow(cause));
      done();
    };
    if (messages_->can_cancel()) return end(FromTensorFlow(error));
    EndWithCause(FromTensorFlow(error), end);
  }

  Status Read(OpKernelContext* ctx, RankMessage* message) const {
    const Tensor& tensor = ctx->input(0);
    TF_RETURN_IF_ERROR(ReadSplits(ctx, name(), &message->splits));
    int64_t rows = 0;
    for (int64_t count : message->splits) rows += count;
    if (tensor.dims() < 1 || rows != tensor.dim_size(0) ||
        message->splits.size() != static_cast<size_t>(size_)) {
      return errors::InvalidArgument(name(), ": ", message->splits.size(), " splits of ", rows,
                                     " rows in all, for a tensor of shape ",
                                     tensor.shape().DebugString(), " and ", size_, " ranks");
    }
    TensorShape row = tensor.shape();
    row.RemoveDim(0);
    const auto owner = std::make_shared<Tensor>(tensor);
    const int element_bytes = tensorflow::DataTypeSize(tensor.dtype());
    message->data = owner->tensor_data().data();
    message->owner = owner;
    message->row_bytes = row.num_elements() * element_bytes;
    message->carrier = Carrier(tensor.dtype(), element_bytes);
    message->row_elements = message->row_bytes / std::min(element_bytes, kMostCarriedBytes);
    message->kind = absl::StrCat("rows of ", tensorflow::DataTypeString(tensor.dtype()), " ",
                                 row.DebugString());
    return Status();
  }

  static absl::Status Allocate(OpKernelContext* ctx, int64_t rows, char** memory) {
    TensorShape shape = ctx->input(0).shape();
    shape.set_dim(0, rows);
    Tensor* received = nullptr;
    const Status allocated = ctx->allocate_output(0, shape, &received);
    if (allocated.ok()) *memory = const_cast<char*>(received->tensor_data().data());
    return FromTensorFlow(allocated);
  }

  int rank_ = 0;
  int size_ = 0;
  std::string message_;
  std::unique_ptr<RankMessages> messages_;
  std::atomic<int64_t>* sent_ = nullptr;
};

REGISTER_KERNEL_BUILDER(Name("ExchangeAllToAll").Device(tensorflow::DEVICE_CPU),
                        ExchangeAllToAllKernel);

}  // namespace
}  // namespace graph_opt
