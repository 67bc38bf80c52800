#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cancelled_step.h"
#include "kernels/found_resource.h"
#include "kernels/kernel_names.h"
#include "kernels/packed/served_requests.h"
#include "kernels/packed/staged_rows_resource.h"
#include "packed/row_request.h"
#include "packed/row_update.h"
#include "packed/staged_rows.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

namespace {
const char kResource[] = "graph_opt_staged_rows";
}  // namespace

void StagedRowsResource::Restart(OpKernelContext* ctx) {
  StagedRowsResource* found = nullptr;
  tensorflow::ResourceMgr* const resources = ctx->resource_manager();
  if (!resources->Lookup(resources->default_container(), kResource, &found).ok()) return;
  found->rows_->Restart();
  found->Unref();
}

Status StagedRowsResource::Find(OpKernelContext* ctx, std::shared_ptr<StagedRows>* rows) {
  std::shared_ptr<RequestQueue> queue;
  return Find(ctx, rows, &queue);
}

Status StagedRowsResource::Find(OpKernelContext* ctx, std::shared_ptr<StagedRows>* rows,
                                std::shared_ptr<RequestQueue>* queue) {
  tensorflow::core::RefCountPtr<StagedRowsResource> found;
  TF_RETURN_IF_ERROR(FindOrMake(ctx, kResource, &found));
  *rows = found->rows_;
  *queue = found->queue_;
  return Status();
}

namespace {

// An op that sends servers requests for rows that it notes.
class RequestingKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit RequestingKernel(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_servers", &num_servers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shard_servers", &servers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shards", &shards_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("lookup", &lookup_));
    OP_REQUIRES(
        ctx, servers_.size() == shards_.size(),
        errors::InvalidArgument(name(), ": shard_servers has ", servers_.size(),
                                " entries, need one for each of the ", shards_.size(), " shards"));
  }

 protected:
  // Ends the op once the batch may be asked for, or the step is cancelled.
  static void Stage(OpKernelContext* ctx, const std::shared_ptr<StagedRows>& staged,
                    const std::shared_ptr<StagedBatch>& batch, DoneCallback done) {
    tensorflow::CancellationManager* const manager = ctx->cancellation_manager();
    if (manager == nullptr) {
      staged->Stage(batch, std::move(done));
      return;
    }
    const tensorflow::CancellationToken token = manager->get_cancellation_token();
    const bool goes_on = manager->RegisterCallback(token, [ctx, staged, batch, done] {
      if (!staged->StopWaiting(batch)) return;
      ctx->SetStatus(StepIsCancelled(*ctx));
      done();
    });
    OP_REQUIRES_ASYNC(ctx, goes_on, StepIsCancelled(*ctx), done);
    const auto ready = [manager, token, done] {
      manager->TryDeregisterCallback(token);
      done();
    };
    // A cancellation in the meantime did not find it.
    OP_REQUIRES_ASYNC(ctx, staged->Stage(batch, ready), StepIsCancelled(*ctx), done);
  }

  int num_servers_ = 0;
  std::vector<int> servers_;
  std::vector<std::string> shards_;
  std::string lookup_;
};

class StageServedRowsKernel : public RequestingKernel {
 public:
  explicit StageServedRowsKernel(OpKernelConstruction* ctx)
      : RequestingKernel(ctx),
        key_(KeyOfLookup(lookup_, shards_)),
        followed_(FollowedShards(shards_)) {}

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<StagedRows> staged;
    std::shared_ptr<RequestQueue> queue;
    std::vector<RowsOfShard> parts;
    bool has_bags = false;
    OP_REQUIRES_OK_ASYNC(ctx, StagedRowsResource::Find(ctx, &staged, &queue), done);
    OP_REQUIRES_OK_ASYNC(ctx, ReadParts(ctx, &parts, &has_bags), done);
    auto served = std::make_shared<ServedBatch>();
    served->shards = followed_;
    for (int i = 0; i < num_servers_; ++i) served->requests.push_back(ctx->input(i));
    if (!has_bags && staged->AsksAhead(parts)) {
      auto memory = std::make_shared<std::vector<Tensor>>(served->requests);
      served->batch = std::make_shared<StagedBatch>(lookup_, std::move(parts), std::move(memory));
    }
    OP_REQUIRES_OK_ASYNC(ctx, SetShared(ctx, num_servers_ + 1, served), done);
    if (served->batch == nullptr) {
      queue->Add(key_, served);
      OP_REQUIRES_OK_ASYNC(ctx, AskForNothing(ctx), done);
      return done();
    }
    for (int i = 0; i <= num_servers_; ++i) ctx->set_output(i, ctx->input(i));
    Stage(ctx, staged, served->batch, std::move(done));
  }

 private:
  // The rows that are asked for. Which ones bags have is not found out.
  Status ReadParts(OpKernelContext* ctx, std::vector<RowsOfShard>* parts, bool* has_bags) const {
    std::vector<const int64_t*> next;
    std::vector<const int64_t*> ends;
    for (int i = 0; i < num_servers_; ++i) {
      const auto words = ctx->input(i).flat<tensorflow::int64>();
      next.push_back(reinterpret_cast<const int64_t*>(words.data()));
      ends.push_back(next.back() + words.size());
    }
    parts->resize(shards_.size());
    for (size_t s = 0; s < shards_.size(); ++s) {
      const int64_t*& at = next[servers_[s]];
      const int64_t left = ends[servers_[s]] - at - kRequestHeaderWords;
      if (left < 0 || at[0] < 0 || at[1] < 0 || at[1] > left) {
        return errors::InvalidArgument(name(), ": the request to server ", servers_[s],
                                       " does not ask for rows or bags");
      }
      RowsOfShard& part = (*parts)[s];
      part.shard = shards_[s];
      if (at[0] == 0) {
        part.count = at[1];
        part.rows = at + kRequestHeaderWords;
      }
      *has_bags |= at[0] > 0;
      at += kRequestHeaderWords + at[1];
    }
    return Status();
  }

  Status AskForNothing(OpKernelContext* ctx) const {
    TF_RETURN_IF_ERROR(SetEmptyRequests(ctx, num_servers_, servers_));
    Tensor* counts = nullptr;
    const auto shards = static_cast<tensorflow::int64>(shards_.size());
    TF_RETURN_IF_ERROR(ctx->allocate_output(num_servers_, TensorShape({shards}), &counts));
    counts->flat<tensorflow::int64>().setConstant(kNotAskedYet);
    return Status();
  }

  const std::string key_;
  const std::shared_ptr<const std::vector<std::string>> followed_;
};

class TakeServedRowsKernel : public OpKernel {
 public:
  explicit TakeServedRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_servers", &num_servers_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<StagedRows> staged;
    std::shared_ptr<RequestQueue> queue;
    std::shared_ptr<ServedBatch> served;
    OP_REQUIRES_OK(ctx, StagedRowsResource::Find(ctx, &staged, &queue));
    OP_REQUIRES_OK(ctx, GetShared(name(), ctx->input(0), &served));
    OP_REQUIRES(ctx, served->requests.size() == static_cast<size_t>(num_servers_),
                errors::InvalidArgument(name(), ": the batch was staged with requests to ",
                                        served->requests.size(), " servers, need ", num_servers_));
    staged->BeginStep();
    auto rows = std::make_shared<TakenRows>();
    Taken taken = Taken::kToBeAsked;
    if (served->batch != nullptr) {
      taken = staged->Take(served->batch, &rows->changes);
      rows->num_shards = served->batch->parts().size();
    } else {
      rows->sent = queue->Take(served, staged->NumWrites(*served->shards));
    }
    OP_REQUIRES(
        ctx, taken != Taken::kUnreported,
        errors::FailedPrecondition(
            name(),
            ": rows of this batch, which was looked up ahead, have changed since in a way that "
            "this worker was not told of: a step that updates them did not run the op that keeps "
            "their new values. Run all steps of this graph in graph_opt's sessions; "
            "async_embedding_options.exact keeps this step from running with old rows"));
    rows->asks = taken == Taken::kToBeAsked && rows->sent.empty();
    for (int i = 0; i < num_servers_; ++i) ctx->set_output(i, served->requests[i]);
    Tensor* asks = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(num_servers_, TensorShape({}), &asks));
    asks->scalar<bool>()() = rows->asks;
    OP_REQUIRES_OK(ctx, SetShared(ctx, num_servers_ + 1, rows));
  }

 private:
  int num_servers_ = 0;
};

// Asks for the rows of a lost batch again, or for none.
class FindLostRowsKernel : public RequestingKernel {
 public:
  using RequestingKernel::RequestingKernel;

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<StagedRows> staged;
    OP_REQUIRES_OK_ASYNC(ctx, StagedRowsResource::Find(ctx, &staged), done);
    auto lost = std::make_shared<LostBatch>(staged->FindLost(lookup_, shards_));
    OP_REQUIRES_OK_ASYNC(ctx, Ask(ctx, lost->batch.get()), done);
    OP_REQUIRES_OK_ASYNC(ctx, SetShared(ctx, num_servers_, lost), done);
    Tensor* loss = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->allocate_output(num_servers_ + 1, TensorShape({}), &loss), done);
    loss->scalar<int>()() = static_cast<int>(lost->loss);
    if (lost->batch == nullptr) return done();
    Stage(ctx, staged, lost->again, std::move(done));
  }

 private:
  Status Ask(OpKernelContext* ctx, const StagedBatch* batch) const {
    std::vector<std::vector<int64_t>> requests(num_servers_);
    for (size_t s = 0; s < shards_.size(); ++s) {
      std::vector<int64_t>& request = requests[servers_[s]];
      const RowsOfShard rows = batch == nullptr ? RowsOfShard() : batch->parts()[s];
      request.insert(request.end(), {0, rows.count});
      request.insert(request.end(), rows.rows, rows.rows + rows.count);
    }
    for (int i = 0; i < num_servers_; ++i) {
      Tensor* output = nullptr;
      const auto size = static_cast<tensorflow::int64>(requests[i].size());
      TF_RETURN_IF_ERROR(ctx->allocate_output(i, TensorShape({size}), &output));
      std::copy(requests[i].begin(), requests[i].end(), output->flat<tensorflow::int64>().data());
    }
    return Status();
  }
};

class ReplaceLostRowsKernel : public OpKernel {
 public:
  explicit ReplaceLostRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_servers", &num_servers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shard_servers", &servers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shard_widths", &widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<StagedRows> staged;
    std::shared_ptr<LostBatch> lost;
    OP_REQUIRES_OK(ctx, StagedRowsResource::Find(ctx, &staged));
    OP_REQUIRES_OK(ctx, GetShared(name(), ctx->input(num_servers_), &lost));
    if (lost->batch == nullptr) return;
    const std::vector<RowsOfShard>& parts = lost->batch->parts();
    OP_REQUIRES(
        ctx, parts.size() == servers_.size() && parts.size() == widths_.size(),
        errors::InvalidArgument(name(), ": shard_servers has ", servers_.size(),
                                " entries, need one for each of the ", parts.size(), " shards"));
    auto memory = std::make_shared<std::vector<Tensor>>();
    for (int i = 0; i < num_servers_; ++i) memory->push_back(ctx->input(i));
    std::vector<int64_t> read(num_servers_, 0);
    std::vector<StagedRows::ReadRows> rows;
    for (size_t s = 0; s < parts.size(); ++s) {
      const tensorflow::StringPiece bytes = (*memory)[servers_[s]].tensor_data();
      const int64_t row_bytes = static_cast<int64_t>(widths_[s]) * tensorflow::DataTypeSize(dtype_);
      rows.push_back({bytes.data() + read[servers_[s]], row_bytes});
      read[servers_[s]] += parts[s].count * row_bytes;
      OP_REQUIRES(ctx, read[servers_[s]] <= static_cast<int64_t>(bytes.size()),
                  errors::InvalidArgument(name(), ": server ", servers_[s], " sent ", bytes.size(),
                                          " bytes, fewer than the rows that were asked for"));
    }
    staged->Replace(*lost, rows, memory);
  }

 private:
  int num_servers_ = 0;
  std::vector<int> servers_;
  std::vector<int> widths_;
  tensorflow::DataType dtype_ = tensorflow::DT_INVALID;
};

class KeepServedRowsKernel : public OpKernel {
 public:
  explicit KeepServedRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_servers", &num_servers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shard_servers", &servers_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shard_widths", &widths_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<PendingUpdate> update;
    OP_REQUIRES_OK(ctx, GetShared(name(), ctx->input(num_servers_), &update));
    const std::vector<std::vector<bool>>& asked = update->asked();
    OP_REQUIRES(
        ctx, asked.size() == servers_.size() && asked.size() == widths_.size(),
        errors::InvalidArgument(name(), ": shard_servers has ", servers_.size(),
                                " entries, need one for each of the ", asked.size(), " shards"));
    auto memory = std::make_shared<std::vector<Tensor>>();
    std::vector<int64_t> taken(num_servers_, kAnswerHeaderBytes);
    for (int i = 0; i < num_servers_; ++i) memory->push_back(ctx->input(i));
    std::vector<PendingUpdate::Answer> answers;
    for (size_t s = 0; s < servers_.size(); ++s) {
      const tensorflow::StringPiece bytes = (*memory)[servers_[s]].tensor_data();
      PendingUpdate::Answer answer = {0, bytes.data() + taken[servers_[s]],
                                      widths_[s] * static_cast<int64_t>(sizeof(float)), memory};
      for (bool one : asked[s]) taken[servers_[s]] += one ? answer.row_bytes : 0;
      OP_REQUIRES(ctx, taken[servers_[s]] <= static_cast<int64_t>(bytes.size()),
                  errors::InvalidArgument(name(), ": server ", servers_[s], " sent ", bytes.size(),
                                          " bytes, fewer than the rows that were asked for"));
      std::memcpy(&answer.order, bytes.data(), sizeof(answer.order));
      answers.push_back(std::move(answer));
    }
    update->Keep(answers);
  }

 private:
  int num_servers_ = 0;
  std::vector<int> servers_;
  std::vector<int> widths_;
};

class LoseServedRowsKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<StagedRows> staged;
    OP_REQUIRES_OK(ctx, StagedRowsResource::Find(ctx, &staged));
    staged->LoseAll();
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("StageServedRows"), StageServedRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("TakeServedRows"), TakeServedRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("KeepServedRows"), KeepServedRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("LoseServedRows"), LoseServedRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("FindLostRows"), FindLostRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("ReplaceLostRows"), ReplaceLostRowsKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
