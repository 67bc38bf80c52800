#ifndef GRAPH_OPT_KERNELS_BUFFER_TENSOR_BUFFER_RESOURCE_H_
#define GRAPH_OPT_KERNELS_BUFFER_TENSOR_BUFFER_RESOURCE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "buffer/bounded_buffer.h"
#include "buffer/turn_line.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace graph_opt {

// One element of a buffer: references to the tensors of one batch.
struct TensorRecord {
  int64_t ByteSize() const;

  std::vector<tensorflow::Tensor> tensors;
};

using TensorBuffer = BoundedBuffer<TensorRecord>;

// A TensorBuffer and the turns of the steps that fill it, in the resource manager of a device;
// created by whichever of its ops runs first.
class TensorBufferResource : public tensorflow::ResourceBase {
 public:
  TensorBufferResource(const std::string& name, int64_t capacity)
      : buffer_(std::make_shared<TensorBuffer>(name, capacity)),
        turns_(std::make_shared<TurnLine>(name)),
        shared_capacity_(capacity) {}

  TensorBuffer* buffer() const { return buffer_.get(); }
  const std::shared_ptr<TensorBuffer>& shared_buffer() const { return buffer_; }
  TurnLine* turns() const { return turns_.get(); }

  // Reopens both, for records of any types: on a server, the next session's graph may give a buffer
  // of the same name another capacity and other records.
  void Resume(int64_t capacity, int64_t first_place);

  // Fails all waiting and later calls.
  void Cancel(const absl::Status& status);

  // The op called `op_name` says shared_capacity = `capacity`: must be what all others say.
  tensorflow::Status CheckCapacity(const std::string& op_name, int64_t capacity) const;

  // The op called `op_name` puts or takes records of `dtypes`: must be those of all others.
  tensorflow::Status CheckDtypes(const std::string& op_name,
                                 const tensorflow::DataTypeVector& dtypes);

  std::string DebugString() const override;

 private:
  const std::shared_ptr<TensorBuffer> buffer_;
  const std::shared_ptr<TurnLine> turns_;
  mutable std::mutex mutex_;
  int64_t shared_capacity_;  // what ops give, whatever it was resized to; guarded by mutex_
  tensorflow::DataTypeVector dtypes_;  // empty until a put or take states them; guarded by mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_BUFFER_TENSOR_BUFFER_RESOURCE_H_
