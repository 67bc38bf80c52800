#include <algorithm>
#include <string>
#include <vector>

#include "kernels/buffer/buffer_watch.h"
#include "kernels/buffer/tensor_buffer_inputs.h"
#include "kernels/buffer/tensor_buffer_resource.h"
#include "kernels/kernel_names.h"
#include "kernels/packed/staged_rows_resource.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// What the ops that control or observe a buffer share.
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
    int num_places;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("is_cancelled", &is_cancelled_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_places", &num_places));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_status", &num_status));
    OP_REQUIRES(ctx, num_status <= (is_cancelled_ ? 1 : 0),
                errors::InvalidArgument(name(), ": num_status is ", num_status,
                                        "; a cancel has one status or none, a resume has none"));
    OP_REQUIRES(ctx, num_places <= (is_cancelled_ ? 0 : 1),
                errors::InvalidArgument(name(), ": num_places is ", num_places,
                                        "; a resume has one first place or none, a cancel none"));
    has_status_ = num_status == 1;
  }

 private:
  void Control(OpKernelContext* ctx, TensorBufferResource* resource) override {
    if (!is_cancelled_) return Resume(ctx, resource);
    absl::Status status = absl::CancelledError(
        absl::StrCat("buffer '", resource->buffer()->name(), "' was cancelled"));
    if (has_status_) {
      OP_REQUIRES_OK(ctx, StatusOf(*this, ctx->input(0), ctx->input(1), kFirstErrorCode, &status));
    }
    resource->Cancel(status);
  }

  void Resume(OpKernelContext* ctx, TensorBufferResource* resource) {
    OpInputList first_places;
    OP_REQUIRES_OK(ctx, ctx->input_list("first_place", &first_places));
    int64_t first_place = 0;
    if (first_places.size() > 0) OP_REQUIRES_OK(ctx, PlaceOf(*this, first_places[0], &first_place));
    resource->Resume(capacity(), std::max<int64_t>(first_place, 0));
    StagedRowsResource::Restart(ctx);
    BufferWatch::Note(resource->shared_buffer());
  }

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

class TensorBufferResizeOp : public ControlOp {
 public:
  using ControlOp::ControlOp;

 private:
  void Control(OpKernelContext* ctx, TensorBufferResource* resource) override {
    int64_t capacity = 0;
    OP_REQUIRES_OK(ctx, CapacityOf(*this, ctx->input(0), &capacity));
    resource->buffer()->Resize(capacity);
  }
};

class TensorBufferTurnEndOp : public ControlOp {
 public:
  using ControlOp::ControlOp;

 private:
  void Control(OpKernelContext* ctx, TensorBufferResource* resource) override {
    int64_t place = kNoPlace;
    OP_REQUIRES_OK(ctx, PlaceOf(*this, ctx->input(0), &place));
    if (place != kNoPlace) resource->turns()->End(place);
  }
};

class TensorBufferTurnBegunOp : public ControlOp {
 public:
  using ControlOp::ControlOp;

 private:
  void Control(OpKernelContext* ctx, TensorBufferResource* resource) override {
    int64_t place = kNoPlace;
    OP_REQUIRES_OK(ctx, PlaceOf(*this, ctx->input(0), &place));
    Tensor* begun = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &begun));
    begun->scalar<bool>()() = resource->turns()->HasBegun(place);
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
        m.closed,    m.cancelled,   m.errors,          m.largest_bytes};
    Tensor* metrics = nullptr;
    const TensorShape shape({static_cast<tensorflow::int64>(values.size())});
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &metrics));
    auto out = metrics->vec<tensorflow::int64>();
    for (size_t i = 0; i < values.size(); ++i) out(i) = values[i];
  }
};

#define REGISTER_CPU_KERNEL(op) \
  REGISTER_KERNEL_BUILDER(Name(#op).Device(tensorflow::DEVICE_CPU), op##Op)

REGISTER_CPU_KERNEL(TensorBufferCancel);
REGISTER_CPU_KERNEL(TensorBufferClose);
REGISTER_CPU_KERNEL(TensorBufferResize);
REGISTER_CPU_KERNEL(TensorBufferSize);
REGISTER_CPU_KERNEL(TensorBufferMetrics);
REGISTER_CPU_KERNEL(TensorBufferTurnBegun);
REGISTER_CPU_KERNEL(TensorBufferTurnEnd);

#undef REGISTER_CPU_KERNEL

}  // namespace
}  // namespace graph_opt
