#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "buffer/buffer_watch.h"
#include "buffer/tensor_buffer_resource.h"
#include "buffer/ticket_variant.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow_compat.h"
#include "threads/stage_thread.h"

namespace graph_opt {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::DataTypeVector;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
namespace errors = tensorflow::errors;

// Ends a waiting call when its step is cancelled.
class StepCancellation : public Interruption {
 public:
  explicit StepCancellation(CancellationManager* manager) : manager_(manager) {}

  bool Arm(std::function<void()> interrupt) override {
    token_ = manager_->get_cancellation_token();
    return manager_->RegisterCallback(token_, std::move(interrupt));
  }

  // DeregisterCallback would wait for a cancellation under way, which may be what ended this very
  // call; the callback owns all it touches, so it may come late.
  void Disarm() override { manager_->TryDeregisterCallback(token_); }

 private:
  CancellationManager* const manager_;
  tensorflow::CancellationToken token_ = 0;
};

Status ToStatus(const BufferStatus& status) {
  return status.ok() ? Status() : ErrorStatus(status.code, status.message);
}

// Finds the buffer that an op's attributes name, and remembers it.
class BufferAttrs {
 public:
  Status Read(OpKernelConstruction* ctx) {
    std::string shared_name;
    TF_RETURN_IF_ERROR(ctx->GetAttr("shared_name", &shared_name));
    TF_RETURN_IF_ERROR(ctx->GetAttr("shared_capacity", &capacity_));
    if (shared_name.empty()) {
      return errors::InvalidArgument(ctx->def().name(),
                                     ": shared_name is empty; it must name the buffer");
    }
    if (ctx->HasAttr("dtypes")) TF_RETURN_IF_ERROR(ctx->GetAttr("dtypes", &dtypes_));
    if (ctx->HasAttr("is_cancelled")) {
      TF_RETURN_IF_ERROR(ctx->GetAttr("is_cancelled", &must_agree_));
    }
    return Status();
  }

  int64_t capacity() const { return capacity_; }
  const DataTypeVector& dtypes() const { return dtypes_; }

  Status Find(OpKernelContext* ctx, TensorBufferResource** resource) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (resource_ == nullptr) TF_RETURN_IF_ERROR(Bind(ctx));
    *resource = resource_.get();
    return Status();
  }

 private:
  Status Bind(OpKernelContext* ctx) {
    const OpKernel& kernel = ctx->op_kernel();
    tensorflow::ContainerInfo container;
    TF_RETURN_IF_ERROR(container.Init(ctx->resource_manager(), kernel.def()));
    TensorBufferResource* found = nullptr;
    TF_RETURN_IF_ERROR(ctx->resource_manager()->LookupOrCreate<TensorBufferResource>(
        container.container(), container.name(), &found, [&](TensorBufferResource** created) {
          *created = new TensorBufferResource(container.name(), capacity_);
          return Status();
        }));
    tensorflow::core::RefCountPtr<TensorBufferResource> resource(found);
    if (must_agree_) TF_RETURN_IF_ERROR(resource->CheckCapacity(kernel.name(), capacity_));
    if (!dtypes_.empty()) TF_RETURN_IF_ERROR(resource->CheckDtypes(kernel.name(), dtypes_));
    resource_ = std::move(resource);
    return Status();
  }

  tensorflow::int64 capacity_ = 0;
  bool must_agree_ = true;  // a resume sets the capacity, the others must have the same
  DataTypeVector dtypes_;
  std::mutex mutex_;
  tensorflow::core::RefCountPtr<TensorBufferResource> resource_;  // guarded by mutex_
};

// What put and take share: attributes, and calls that hold no thread while they wait.
class WaitingOp : public AsyncOpKernel {
 public:
  explicit WaitingOp(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("timeout_millis", &timeout_millis_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("unordered", &unordered_));
  }

  // A call returns within a microsecond, so it is not worth another thread.
  bool IsExpensive() override { return false; }

 protected:
  Status Find(OpKernelContext* ctx, TensorBuffer** buffer) {
    TensorBufferResource* resource = nullptr;
    TF_RETURN_IF_ERROR(attrs_.Find(ctx, &resource));
    *buffer = resource->buffer();
    return Status();
  }

  const DataTypeVector& dtypes() const { return attrs_.dtypes(); }

  // Begins a call by `begin(ended)`, which has `ended` called when the kernel's outputs and status
  // are set. A stage's own thread waits for that and goes on with its step; elsewhere the step goes
  // on in the thread that ended the call.
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
    options.unordered = unordered_;
    if (CancellationManager* manager = ctx->cancellation_manager()) {
      options.interruption.reset(new StepCancellation(manager));
    }
    return options;
  }

 private:
  BufferAttrs attrs_;
  tensorflow::int64 timeout_millis_ = 0;
  bool unordered_ = false;
};

class TensorBufferPutOp : public WaitingOp {
 public:
  explicit TensorBufferPutOp(OpKernelConstruction* ctx) : WaitingOp(ctx) {
    int num_tickets;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_tickets", &num_tickets));
    OP_REQUIRES(ctx, num_tickets <= 1,
                errors::InvalidArgument(name(), ": num_tickets is ", num_tickets,
                                        "; a record has one ticket or none"));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    TensorBuffer* buffer = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, Find(ctx, &buffer), done);
    std::shared_ptr<Ticket> ticket;
    OP_REQUIRES_OK_ASYNC(ctx, TicketOf(ctx, &ticket), done);
    OpInputList inputs;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->input_list("record", &inputs), done);
    TensorRecord record;
    record.tensors.assign(inputs.begin(), inputs.end());
    const auto begin = [&](DoneCallback ended) {
      buffer->Put(std::move(record), std::move(ticket), Options(ctx),
                  [ctx, ended](const BufferStatus& status) {
                    ctx->SetStatus(ToStatus(status));
                    ended();
                  });
    };
    Call(begin, std::move(done));
  }

 private:
  Status TicketOf(OpKernelContext* ctx, std::shared_ptr<Ticket>* ticket) const {
    OpInputList tickets;
    TF_RETURN_IF_ERROR(ctx->input_list("ticket", &tickets));
    if (tickets.size() == 0) return Status();
    const TicketVariant* variant = nullptr;
    if (tickets[0].dims() == 0) {
      variant = tickets[0].scalar<tensorflow::Variant>()().get<TicketVariant>();
    }
    if (variant == nullptr) {
      return errors::InvalidArgument(name(), ": ticket is ", tickets[0].DebugString(),
                                     "; it must be the ticket output of a TensorBufferTake");
    }
    *ticket = variant->ticket;
    return Status();
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
    TensorBuffer* buffer = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, Find(ctx, &buffer), done);
    CallOptions options = Options(ctx);
    options.runner_grace_millis = runner_grace_millis_;
    const auto begin = [&](DoneCallback ended) {
      buffer->Take(std::move(options),
                   [this, ctx, ended](const BufferStatus& status, TensorBuffer::Taken taken) {
                     ctx->SetStatus(status.ok() ? Emit(ctx, std::move(taken)) : ToStatus(status));
                     ended();
                   });
    };
    Call(begin, std::move(done));
  }

 private:
  Status Emit(OpKernelContext* ctx, TensorBuffer::Taken taken) const {
    std::vector<Tensor>& tensors = taken.element.tensors;
    TF_RETURN_IF_ERROR(CheckRecord(tensors));
    const int ticket_index = static_cast<int>(dtypes().size());
    for (int i = 0; i < ticket_index; ++i) ctx->set_output(i, std::move(tensors[i]));
    Tensor* ticket = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(ticket_index, TensorShape({}), &ticket));
    ticket->scalar<tensorflow::Variant>()() = TicketVariant{std::move(taken.ticket)};
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

// What the ops that steer or watch a buffer share.
class ControlOp : public OpKernel {
 public:
  explicit ControlOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
  }

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    TensorBufferResource* resource = nullptr;
    OP_REQUIRES_OK(ctx, attrs_.Find(ctx, &resource));
    Control(ctx, resource);
  }

 protected:
  int64_t capacity() const { return attrs_.capacity(); }

 private:
  virtual void Control(OpKernelContext* ctx, TensorBufferResource* resource) = 0;

  BufferAttrs attrs_;
};

class TensorBufferCancelOp : public ControlOp {
 public:
  explicit TensorBufferCancelOp(OpKernelConstruction* ctx) : ControlOp(ctx) {
    int num_status;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("is_cancelled", &is_cancelled_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_status", &num_status));
    OP_REQUIRES(ctx, num_status <= (is_cancelled_ ? 1 : 0),
                errors::InvalidArgument(name(), ": num_status is ", num_status,
                                        "; a cancel has one status or none, a resume has none"));
    has_status_ = num_status == 1;
  }

 private:
  void Control(OpKernelContext* ctx, TensorBufferResource* resource) override {
    if (!is_cancelled_) {
      resource->Resume(capacity());
      return BufferWatch::Note(resource->shared_buffer());
    }
    TensorBuffer* buffer = resource->buffer();
    BufferStatus status(BufferStatus::kCancelled, "buffer '" + buffer->name() + "' was cancelled");
    if (has_status_) OP_REQUIRES_OK(ctx, StatusOf(ctx, &status));
    buffer->Cancel(status);
  }

  Status StatusOf(OpKernelContext* ctx, BufferStatus* status) const {
    const Tensor& code = ctx->input(0);
    const Tensor& message = ctx->input(1);
    if (code.dims() != 0 || message.dims() != 0) {
      return errors::InvalidArgument(name(), ": code has shape ", code.shape().DebugString(),
                                     " and message ", message.shape().DebugString(),
                                     "; both must be scalars");
    }
    status->code = code.scalar<tensorflow::int32>()();
    status->message = std::string(message.scalar<tensorflow::tstring>()());
    if (status->code < 1 || status->code > kLastErrorCode) {
      return errors::InvalidArgument(name(), ": code is ", status->code, "; an error is 1 to ",
                                     kLastErrorCode, " (tf.errors.*)");
    }
    return Status();
  }

  static constexpr int kLastErrorCode = 16;  // UNAUTHENTICATED

  bool is_cancelled_ = true;
  bool has_status_ = false;
};

class TensorBufferCloseOp : public ControlOp {
 public:
  using ControlOp::ControlOp;

 private:
  void Control(OpKernelContext*, TensorBufferResource* resource) override {
    resource->buffer()->Close();
  }
};

class TensorBufferSizeOp : public ControlOp {
 public:
  using ControlOp::ControlOp;

 private:
  void Control(OpKernelContext* ctx, TensorBufferResource* resource) override {
    Tensor* size = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &size));
    size->scalar<tensorflow::int32>()() =
        static_cast<tensorflow::int32>(resource->buffer()->Size());
  }
};

class TensorBufferMetricsOp : public ControlOp {
 public:
  using ControlOp::ControlOp;

 private:
  void Control(OpKernelContext* ctx, TensorBufferResource* resource) override {
    const BufferMetrics m = resource->buffer()->Metrics();
    // The order of graph_opt.ops.tensor_buffer.METRIC_NAMES.
    const std::vector<int64_t> values = {
        m.capacity,  m.size,        m.put_count,       m.take_count,
        m.dropped,   m.taken_bytes, m.put_wait_micros, m.take_wait_micros,
        m.put_waits, m.take_waits,  m.pending_takes,   m.pending_puts,
        m.closed,    m.cancelled};
    Tensor* metrics = nullptr;
    const TensorShape shape({static_cast<tensorflow::int64>(values.size())});
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &metrics));
    auto out = metrics->vec<tensorflow::int64>();
    for (size_t i = 0; i < values.size(); ++i) out(i) = values[i];
  }
};

#define REGISTER_CPU_KERNEL(op) \
  REGISTER_KERNEL_BUILDER(Name(#op).Device(tensorflow::DEVICE_CPU), op##Op)

REGISTER_CPU_KERNEL(TensorBufferPut);
REGISTER_CPU_KERNEL(TensorBufferTake);
REGISTER_CPU_KERNEL(TensorBufferCancel);
REGISTER_CPU_KERNEL(TensorBufferClose);
REGISTER_CPU_KERNEL(TensorBufferSize);
REGISTER_CPU_KERNEL(TensorBufferMetrics);

#undef REGISTER_CPU_KERNEL

}  // namespace
}  // namespace graph_opt
