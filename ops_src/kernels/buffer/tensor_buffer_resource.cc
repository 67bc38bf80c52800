#include "kernels/buffer/tensor_buffer_resource.h"

#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

using tensorflow::DataTypeVector;
using tensorflow::DataTypeVectorString;
namespace errors = tensorflow::errors;

int64_t TensorRecord::ByteSize() const {
  int64_t bytes = 0;
  for (const tensorflow::Tensor& tensor : tensors) bytes += tensor.TotalBytes();
  return bytes;
}

void TensorBufferResource::Resume(int64_t capacity, int64_t first_place) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dtypes_.clear();
    shared_capacity_ = capacity;
  }
  buffer_->Resume(capacity, first_place);
  turns_->Restart(first_place);
}

void TensorBufferResource::Cancel(const absl::Status& status) {
  turns_->Cancel(status);
  buffer_->Cancel(status);
}

Status TensorBufferResource::CheckCapacity(const std::string& op_name, int64_t capacity) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t existing = shared_capacity_;
  if (capacity == existing) return Status();
  return errors::InvalidArgument(op_name, ": shared_capacity is ", capacity, ", but buffer '",
                                 buffer_->name(), "' exists with shared_capacity ", existing,
                                 "; give all ops of a buffer the same");
}

Status TensorBufferResource::CheckDtypes(const std::string& op_name, const DataTypeVector& dtypes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (dtypes_.empty()) dtypes_ = dtypes;
  if (dtypes == dtypes_) return Status();
  return errors::InvalidArgument(op_name, ": dtypes are [", DataTypeVectorString(dtypes),
                                 "], but buffer '", buffer_->name(), "' holds records of [",
                                 DataTypeVectorString(dtypes_),
                                 "]; give all puts and takes of a buffer the same");
}

std::string TensorBufferResource::DebugString() const {
  return "TensorBuffer '" + buffer_->name() + "' (" + std::to_string(buffer_->Size()) + " of " +
         std::to_string(buffer_->capacity()) + ")";
}

}  // namespace graph_opt
