#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/packed/served_requests.h"
#include "kernels/packed/staged_rows_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {
namespace {

// The first that was neither taken nor dropped; those before it are forgotten.
std::shared_ptr<ServedBatch> FirstWaiting(std::deque<std::weak_ptr<ServedBatch>>* waiting) {
  for (; !waiting->empty(); waiting->pop_front()) {
    std::shared_ptr<ServedBatch> batch = waiting->front().lock();
    if (batch != nullptr && !batch->is_taken) return batch;
  }
  return nullptr;
}

}  // namespace

void RequestQueue::Add(const std::string& lookup, const std::shared_ptr<ServedBatch>& batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  FirstWaiting(&waiting_[lookup]);
  waiting_[lookup].push_back(batch);
}

std::shared_ptr<ServedBatch> RequestQueue::Next(const std::string& lookup) {
  std::lock_guard<std::mutex> lock(mutex_);
  return FirstWaiting(&waiting_[lookup]);
}

void RequestQueue::Answer(const std::shared_ptr<ServedBatch>& batch, int64_t num_writes,
                          std::vector<Tensor> rows) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (batch->is_taken || num_writes < batch->num_writes) return;
  batch->num_writes = num_writes;
  batch->sent = std::move(rows);
}

std::vector<Tensor> RequestQueue::Take(const std::shared_ptr<ServedBatch>& batch,
                                       int64_t num_writes) {
  std::lock_guard<std::mutex> lock(mutex_);
  batch->is_taken = true;
  std::vector<Tensor> sent = std::move(batch->sent);
  return batch->num_writes == num_writes ? std::move(sent) : std::vector<Tensor>();
}

namespace {

// A batch that servers were asked for behind an update.
struct AskedBatch {
  std::shared_ptr<ServedBatch> batch;  // null: none
  int64_t num_writes = 0;
};

class NextServedBatchKernel : public OpKernel {
 public:
  explicit NextServedBatchKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_servers", &num_servers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shard_servers", &servers_));
    std::string lookup;
    std::vector<std::string> shards;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("lookup", &lookup));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shards", &shards));
    key_ = KeyOfLookup(lookup, shards);
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_updates", &num_updates_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<StagedRows> staged;
    std::shared_ptr<RequestQueue> queue;
    OP_REQUIRES_OK(ctx, StagedRowsResource::Find(ctx, &staged, &queue));
    auto asked = std::make_shared<AskedBatch>();
    asked->batch = queue->Next(key_);
    if (asked->batch != nullptr) {
      asked->num_writes = staged->NumWritesWith(num_updates_, *asked->batch->shards);
      if (asked->num_writes < 0) asked->batch.reset();
    }
    OP_REQUIRES_OK(ctx, SetShared(ctx, num_servers_, asked));
    if (asked->batch == nullptr) {
      OP_REQUIRES_OK(ctx, SetEmptyRequests(ctx, num_servers_, servers_));
      return;
    }
    for (int i = 0; i < num_servers_; ++i) ctx->set_output(i, asked->batch->requests[i]);
  }

 private:
  int num_servers_ = 0;
  std::vector<int> servers_;
  std::string key_;
  int num_updates_ = 1;
};

class KeepServedBatchKernel : public OpKernel {
 public:
  explicit KeepServedBatchKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_servers", &num_servers_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<StagedRows> staged;
    std::shared_ptr<RequestQueue> queue;
    std::shared_ptr<AskedBatch> asked;
    OP_REQUIRES_OK(ctx, StagedRowsResource::Find(ctx, &staged, &queue));
    OP_REQUIRES_OK(ctx, GetShared(name(), ctx->input(num_servers_), &asked));
    if (asked->batch == nullptr) return;
    std::vector<Tensor> rows;
    for (int i = 0; i < num_servers_; ++i) rows.push_back(ctx->input(i));
    queue->Answer(asked->batch, asked->num_writes, std::move(rows));
  }

 private:
  int num_servers_ = 0;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("NextServedBatch"), NextServedBatchKernel);
REGISTER_KERNEL_BUILDER(CPU("KeepServedBatch"), KeepServedBatchKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
