#ifndef GRAPH_OPT_KERNELS_PACKED_STAGED_ROWS_RESOURCE_H_
#define GRAPH_OPT_KERNELS_PACKED_STAGED_ROWS_RESOURCE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "packed/staged_rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace graph_opt {

// A batch that runs ahead, with what servers are asked for.
struct ServedBatch {
  std::vector<tensorflow::Tensor> requests;  // to each server
  std::shared_ptr<StagedBatch> batch;        // null: servers are not asked ahead of its step
  std::shared_ptr<const std::vector<std::string>> shards;  // that are followed
  // Under the lock of the RequestQueue:
  bool is_taken = false;
  int64_t num_writes = -1;               // before `sent` came; -1: nothing did
  std::vector<tensorflow::Tensor> sent;  // by the servers, behind an update
};

// The batches of which servers are not asked ahead, because updates by bags would soon make what
// they send old. A step asks for what the next step needs, behind its update. Where it could not,
// or another update has begun since, the next step asks itself.
class RequestQueue {
 public:
  // A batch waits for its step.
  void Add(const std::string& lookup, const std::shared_ptr<ServedBatch>& batch);

  // The batch of a lookup that has waited longest; null if none does.
  std::shared_ptr<ServedBatch> Next(const std::string& lookup);

  // What servers sent for a batch after so many writes (StagedRows).
  void Answer(const std::shared_ptr<ServedBatch>& batch, int64_t num_writes,
              std::vector<tensorflow::Tensor> rows);

  // A step takes a batch after so many writes. What servers sent for it, if that is current.
  std::vector<tensorflow::Tensor> Take(const std::shared_ptr<ServedBatch>& batch,
                                       int64_t num_writes);

 private:
  std::mutex mutex_;
  // Of each lookup, those that were not taken and perhaps others; guarded by mutex_.
  std::map<std::string, std::deque<std::weak_ptr<ServedBatch>>> waiting_;
};

// The batches of a worker that run ahead, and its updates.
class StagedRowsResource : public tensorflow::ResourceBase {
 public:
  // That of the op's device.
  static tensorflow::Status Find(tensorflow::OpKernelContext* ctx,
                                 std::shared_ptr<StagedRows>* rows);
  static tensorflow::Status Find(tensorflow::OpKernelContext* ctx,
                                 std::shared_ptr<StagedRows>* rows,
                                 std::shared_ptr<RequestQueue>* queue);

  // No step of the device is under way.
  static void Restart(tensorflow::OpKernelContext* ctx);

  std::string DebugString() const override { return "rows of servers that batches wait with"; }

 private:
  const std::shared_ptr<StagedRows> rows_ = std::make_shared<StagedRows>();
  const std::shared_ptr<RequestQueue> queue_ = std::make_shared<RequestQueue>();
};

// What a step that has taken such a batch does with the rows that came with it.
struct TakenRows {
  bool asks = false;                     // nothing: it asks servers itself
  std::vector<tensorflow::Tensor> sent;  // nothing: these were sent behind the update before
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
