#ifndef GRAPH_OPT_KERNELS_PACKED_STAGED_ROWS_RESOURCE_H_
#define GRAPH_OPT_KERNELS_PACKED_STAGED_ROWS_RESOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "packed/staged_rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace graph_opt {

// The batches of a worker that run ahead, and its updates.
class StagedRowsResource : public tensorflow::ResourceBase {
 public:
  // That of the op's device.
  static tensorflow::Status Find(tensorflow::OpKernelContext* ctx,
                                 std::shared_ptr<StagedRows>* rows);

  // No step of the device is under way.
  static void Restart(tensorflow::OpKernelContext* ctx);

  std::string DebugString() const override { return "rows of servers that batches wait with"; }

 private:
  const std::shared_ptr<StagedRows> rows_ = std::make_shared<StagedRows>();
};

// The rows of a batch that runs ahead.
struct ServedBatch {
  std::vector<tensorflow::Tensor> requests;  // to each server
  std::shared_ptr<StagedBatch> batch;        // null: servers are not asked ahead of its step
};

// What a step that has taken such a batch does with the rows that came with it.
struct TakenRows {
  bool asks = false;  // nothing: it asks servers itself
  size_t num_shards = 0;
  std::vector<StagedBatch::Change> changes;
};

// An object of this process in a tensor.
template <typename Object>
class Shared {
 public:
  Shared() = default;
  explicit Shared(std::shared_ptr<Object> object) : object_(std::move(object)) {}

  const std::shared_ptr<Object>& object() const { return object_; }

  // What a Variant needs. It does not leave the process.
  std::string TypeName() const { return "graph_opt::Shared"; }
  std::string DebugString() const { return "an object of this process"; }
  void Encode(tensorflow::VariantTensorData*) const {}
  bool Decode(const tensorflow::VariantTensorData&) { return false; }

 private:
  std::shared_ptr<Object> object_;
};

// Puts an object into an output.
template <typename Object>
tensorflow::Status SetShared(tensorflow::OpKernelContext* ctx, int output,
                             std::shared_ptr<Object> object) {
  tensorflow::Tensor* tensor = nullptr;
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  const tensorflow::Status status =
      ctx->allocate_output(output, tensorflow::TensorShape({}), &tensor, on_host);
  if (status.ok()) tensor->scalar<tensorflow::Variant>()() = Shared<Object>(std::move(object));
  return status;
}

// The object in a tensor.
template <typename Object>
tensorflow::Status GetShared(const std::string& op, const tensorflow::Tensor& tensor,
                             std::shared_ptr<Object>* object) {
  const Shared<Object>* shared = nullptr;
  if (tensor.NumElements() == 1) {
    shared = tensor.flat<tensorflow::Variant>()(0).get<Shared<Object>>();
  }
  if (shared == nullptr || shared->object() == nullptr) {
    return tensorflow::errors::InvalidArgument(op, ": its last input is not of this process");
  }
  *object = shared->object();
  return tensorflow::Status();
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_PACKED_STAGED_ROWS_RESOURCE_H_
