#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/buffer/buffer_watch.h"
#include "kernels/buffer/tensor_buffer_inputs.h"
#include "kernels/buffer/tensor_buffer_resource.h"
#include "kernels/cancelled_step.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"
#include "threads/stage_thread.h"

namespace graph_opt {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::DataTypeVector;
using tensorflow::PartialTensorShape;
namespace errors = tensorflow::errors;

// Ends a waiting call when its step is cancelled.
class StepCancellation : public Interruption {
 public:
  explicit StepCancellation(CancellationManager* manager) : manager_(manager) {}

  bool Arm(std::function<void()> interrupt) override {
    token_ = manager_->get_cancellation_token();
    return manager_->RegisterCallback(token_, std::move(interrupt));
  }

  // DeregisterCallback would wait for a running cancellation, which may be what ended this very
  // call; the callback owns everything it touches, so it may run late.
  void Disarm() override { manager_->TryDeregisterCallback(token_); }

 private:
  CancellationManager* const manager_;
  tensorflow::CancellationToken token_ = 0;
};

// What put and take share: attributes, and calls that hold no thread while they wait.
class WaitingOp : public AsyncOpKernel {
 public:
  explicit WaitingOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    if (ctx->HasAttr("timeout_millis")) {
      OP_REQUIRES_OK(ctx, ctx->GetAttr("timeout_millis", &timeout_millis_));
    }
  }

  // A call returns within a microsecond, so it is not worth another thread.
  bool IsExpensive() override { return false; }

 protected:
  Status Find(OpKernelContext* ctx, TensorBufferResource** resource) {
    return attrs_.Find(ctx, resource);
  }

  const DataTypeVector& dtypes() const { return attrs_.dtypes(); }

  // Begins a call with `begin(ended)`, which arranges for `ended` to be called once the kernel's
  // outputs and status are set. A stage's own thread waits for that and continues its step; in any
  // other case the step continues in the thread that ended the call.
  template <typename Begin>
  static void Call(Begin begin, DoneCallback done) {
    if (!OnStageThread()) return begin(std::move(done));
    CallEnd end;
    begin([&end] { end.Notify(); });
    end.Wait();
    done();
  }

  CallOptions Options(OpKernelContext* ctx) const {
    CallOptions options;
    options.caller = &name();
    options.timeout_millis = timeout_millis_;
    if (CancellationManager* manager = ctx->cancellation_manager()) {
      options.interruption.reset(new StepCancellation(manager));
    }
    return options;
  }

 private:
  BufferAttrs attrs_;
  tensorflow::int64 timeout_millis_ = 0;
};

// Ends an op with the outcome of its call.
BoundedBuffer<TensorRecord>::Callback EndOp(OpKernelContext* ctx,
                                            AsyncOpKernel::DoneCallback done) {
  return [ctx, done](const absl::Status& status) {
    ctx->SetStatus(StatusInStep(ctx, ToTensorFlow(status)));
    done();
  };
}

class TensorBufferPutOp : public WaitingOp {
 public:
  explicit TensorBufferPutOp(OpKernelConstruction* ctx) : WaitingOp(ctx) {
    int num_places;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_places", &num_places));
    OP_REQUIRES(ctx, num_places <= 1,
                errors::InvalidArgument(name(), ": num_places is ", num_places,
                                        "; a record has one place or none"));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    TensorBufferResource* resource = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, Find(ctx, &resource), done);
    OpInputList inputs;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->input_list("record", &inputs), done);
    int64_t place = kNoPlace;
    const int place_index = inputs.size();
    if (ctx->num_inputs() > place_index) {
      OP_REQUIRES_OK_ASYNC(ctx, PlaceOf(*this, ctx->input(place_index), &place), done);
      if (place != kNoPlace) resource->turns()->End(place);
    }
    TensorRecord record;
    record.tensors.assign(inputs.begin(), inputs.end());
    const auto begin = [&](DoneCallback ended) {
      resource->buffer()->Put(std::move(record), place, Options(ctx), EndOp(ctx, std::move(ended)));
    };
    Call(begin, std::move(done));
  }
};

class TensorBufferPutStatusOp : public WaitingOp {
 public:
  using WaitingOp::WaitingOp;

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    TensorBufferResource* resource = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, Find(ctx, &resource), done);
    int64_t place = kNoPlace;
    OP_REQUIRES_OK_ASYNC(ctx, PlaceOf(*this, ctx->input(0), &place), done);
    absl::Status status;
    OP_REQUIRES_OK_ASYNC(ctx, StatusOf(*this, ctx->input(1), ctx->input(2), kOkCode, &status),
                         done);
    if (place != kNoPlace) resource->turns()->End(place);
    if (!status.ok()) {
      const auto begin = [&](DoneCallback ended) {
        resource->buffer()->PutError(std::move(status), place, Options(ctx),
                                     EndOp(ctx, std::move(ended)));
      };
      return Call(begin, std::move(done));
    }
    if (place != kNoPlace) resource->buffer()->Skip(place);
    done();
  }
};

class TensorBufferTurnOp : public WaitingOp {
 public:
  using WaitingOp::WaitingOp;

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    TensorBufferResource* resource = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, Find(ctx, &resource), done);
    int64_t place = kNoPlace;
    OP_REQUIRES_OK_ASYNC(ctx, PlaceOf(*this, ctx->input(0), &place), done);
    if (place == kNoPlace) return done();
    const auto begin = [&](DoneCallback ended) {
      resource->turns()->Await(place, Options(ctx), EndOp(ctx, std::move(ended)));
    };
    Call(begin, std::move(done));
  }
};

class TensorBufferTakeOp : public WaitingOp {
 public:
  explicit TensorBufferTakeOp(OpKernelConstruction* ctx) : WaitingOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("runner_grace_millis", &runner_grace_millis_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
    OP_REQUIRES(ctx, shapes_.empty() || shapes_.size() == dtypes().size(),
                errors::InvalidArgument(name(), ": shapes has ", shapes_.size(),
                                        " entries, dtypes has ", dtypes().size()));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    TensorBufferResource* resource = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, Find(ctx, &resource), done);
    CallOptions options = Options(ctx);
    options.runner_grace_millis = runner_grace_millis_;
    const auto begin = [&](DoneCallback ended) {
      Begin(resource->buffer(), std::move(options),
            [this, ctx, ended](const absl::Status& status, TensorRecord record) {
              ctx->SetStatus(status.ok() ? Emit(ctx, std::move(record))
                                         : StatusInStep(ctx, ToTensorFlow(status)));
              ended();
            });
    };
    Call(begin, std::move(done));
  }

 private:
  virtual void Begin(TensorBuffer* buffer, CallOptions options, TensorBuffer::TakeCallback ended) {
    buffer->Take(std::move(options), std::move(ended));
  }

  Status Emit(OpKernelContext* ctx, TensorRecord record) const {
    TF_RETURN_IF_ERROR(CheckRecord(record.tensors));
    const int count = static_cast<int>(dtypes().size());
    for (int i = 0; i < count; ++i) ctx->set_output(i, std::move(record.tensors[i]));
    return Status();
  }

  Status CheckRecord(const std::vector<Tensor>& tensors) const {
    for (size_t i = 0; i < dtypes().size(); ++i) {
      if (i >= tensors.size() || tensors[i].dtype() != dtypes()[i]) {
        return errors::InvalidArgument(name(), ": the record was put by another graph: it has no ",
                                       tensorflow::DataTypeString(dtypes()[i]), " at ", i);
      }
      if (shapes_.empty() || shapes_[i].IsCompatibleWith(tensors[i].shape())) continue;
      return errors::InvalidArgument(name(), ": record[", i, "] has shape ",
                                     tensors[i].shape().DebugString(), ", attr shapes says ",
                                     shapes_[i].DebugString());
    }
    return Status();
  }

  tensorflow::int64 runner_grace_millis_ = 0;
  std::vector<PartialTensorShape> shapes_;
};

class TensorBufferPeekOp : public TensorBufferTakeOp {
 public:
  using TensorBufferTakeOp::TensorBufferTakeOp;

 private:
  void Begin(TensorBuffer* buffer, CallOptions options, TensorBuffer::TakeCallback ended) override {
    buffer->Peek(std::move(options), std::move(ended));
  }
};

#define REGISTER_CPU_KERNEL(op) \
  REGISTER_KERNEL_BUILDER(Name(#op).Device(tensorflow::DEVICE_CPU), op##Op)

REGISTER_CPU_KERNEL(TensorBufferPut);
REGISTER_CPU_KERNEL(TensorBufferPutStatus);
REGISTER_CPU_KERNEL(TensorBufferTake);
REGISTER_CPU_KERNEL(TensorBufferPeek);
REGISTER_CPU_KERNEL(TensorBufferTurn);

#undef REGISTER_CPU_KERNEL

}  // namespace
}  // namespace graph_opt
