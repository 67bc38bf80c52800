#include "kernels/buffer/tensor_buffer_inputs.h"

#include <string>
#include <utility>

#include "kernels/buffer/session_resources.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status BufferAttrs::Read(OpKernelConstruction* ctx) {
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

Status BufferAttrs::Find(OpKernelContext* ctx, TensorBufferResource** resource) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (resource_ == nullptr) TF_RETURN_IF_ERROR(Bind(ctx));
  *resource = resource_.get();
  return Status();
}

Status BufferAttrs::Bind(OpKernelContext* ctx) {
  const OpKernel& kernel = ctx->op_kernel();
  tensorflow::ContainerInfo container;
  TF_RETURN_IF_ERROR(container.Init(ctx->resource_manager(), kernel.def()));
  TensorBufferResource* found = nullptr;
  TF_RETURN_IF_ERROR(ctx->resource_manager()->LookupOrCreate<TensorBufferResource>(
      container.container(), NameInSession(ctx, container.name()), &found,
      [&](TensorBufferResource** created) {
        *created = new TensorBufferResource(container.name(), capacity_);
        return Status();
      }));
  tensorflow::core::RefCountPtr<TensorBufferResource> resource(found);
  if (must_agree_) TF_RETURN_IF_ERROR(resource->CheckCapacity(kernel.name(), capacity_));
  if (!dtypes_.empty()) TF_RETURN_IF_ERROR(resource->CheckDtypes(kernel.name(), dtypes_));
  resource_ = std::move(resource);
  return Status();
}

Status StatusOf(const OpKernel& kernel, const Tensor& code, const Tensor& message, int least_code,
                absl::Status* status) {
  if (code.dims() != 0 || message.dims() != 0) {
    return errors::InvalidArgument(kernel.name(), ": code has shape ", code.shape().DebugString(),
                                   " and message ", message.shape().DebugString(),
                                   "; both must be scalars");
  }
  const int value = code.scalar<tensorflow::int32>()();
  if (value < least_code || value > kLastErrorCode) {
    return errors::InvalidArgument(kernel.name(), ": code is ", value, "; an error is 1 to ",
                                   kLastErrorCode, " (tf.errors.*)");
  }
  *status = absl::Status(static_cast<absl::StatusCode>(value),
                         std::string(message.scalar<tensorflow::tstring>()()));
  return Status();
}

Status PlaceOf(const OpKernel& kernel, const Tensor& place, int64_t* value) {
  if (place.dims() != 0) {
    return errors::InvalidArgument(kernel.name(), ": place has shape ", place.shape().DebugString(),
                                   "; it must be a scalar");
  }
  *value = place.scalar<tensorflow::int64>()();
  return Status();
}

Status CapacityOf(const OpKernel& kernel, const Tensor& capacity, int64_t* value) {
  if (capacity.dims() != 0 || capacity.scalar<tensorflow::int64>()() < 1) {
    return errors::InvalidArgument(kernel.name(), ": capacity is ", capacity.SummarizeValue(2),
                                   "; it must be a scalar of at least 1");
  }
  *value = capacity.scalar<tensorflow::int64>()();
  return Status();
}
}  // namespace graph_opt
