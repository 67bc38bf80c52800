#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "deferred/deferred_lookup.h"
#include "deferred/deferred_rows.h"
#include "exchange/received_requests.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/deferred/row_states.h"
#include "kernels/deferred/shards_to_catch_up.h"
#include "kernels/exchange/splits.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/tensorflow_compat.h"
#include "packed/deferred_request.h"
#include "packed/row_request.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Shards of which those beside deferred ones may be dynamic tables.
std::vector<ServedShard> AnyShards(size_t count) {
  std::vector<ServedShard> shards(count);
  for (ServedShard& shard : shards) shard.either = true;
  return shards;
}

class CatchUpKernel : public OpKernel {
 public:
  explicit CatchUpKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_shards", &num_shards_));
    OP_REQUIRES_OK(ctx, optimizer_.ReadSlots(ctx, num_shards_));
    OP_REQUIRES_OK(ctx, states_.Read(ctx, num_shards_, RowStates::kReader));
  }

  void Compute(OpKernelContext* ctx) final {
    ShardsToCatchUp shards;
    bool found = false;
    OP_REQUIRES_OK(ctx, shards.Find(ctx, states_, optimizer_.slots_of_shard(), &found));
    if (!found || IsDone(shards)) return;
    OP_REQUIRES_OK(ctx, shards.Open(ctx, states_, optimizer_));
    DeviceThreads threads(ctx);
    CatchUpRows(ctx, shards, &threads);
  }

 protected:
  // Whether there is nothing to do.
  virtual bool IsDone(const ShardsToCatchUp& shards) const { return shards.AreSettled(); }

  virtual void CatchUpRows(OpKernelContext* ctx, const ShardsToCatchUp& shards,
                           Parallel* parallel) = 0;

  int num_shards() const { return num_shards_; }

  Status ReadNeeds(OpKernelConstruction* ctx, DeferredNeeds* needs) const {
    bool weights_only;
    TF_RETURN_IF_ERROR(ctx->GetAttr("weights_only", &weights_only));
    *needs = weights_only ? DeferredNeeds::kWeights : DeferredNeeds::kAll;
    return Status();
  }

 private:
  int num_shards_ = 0;
  OptimizerInputs optimizer_;
  RowStates states_;
  ScratchUser scratch_;
};

class CatchUpLookupKernel : public CatchUpKernel {
 public:
  explicit CatchUpLookupKernel(OpKernelConstruction* ctx) : CatchUpKernel(ctx) {
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), attrs_.Read(ctx)));
    OP_REQUIRES_OK(ctx, ReadNeeds(ctx, &needs_));
  }

 protected:
  void CatchUpRows(OpKernelContext* ctx, const ShardsToCatchUp& shards,
                   Parallel* parallel) override {
    std::vector<DeferredTable> tables;
    for (int t = 0; t < attrs_.num_tables(); ++t) tables.push_back(TableOf(t, shards));
    OpInputList ids;
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    std::vector<DeferredLookup> lookups;
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      lookups.push_back(DeferredLookup{IdsOf(ids[i], i), attrs_.lookup_tables[i]});
    }
    CatchUp(tables, lookups, BestRowKernels(), parallel);
  }

 private:
  DeferredTable TableOf(int table, const ShardsToCatchUp& shards) const {
    std::vector<int64_t> rows;
    DeferredTable deferred;
    deferred.needs = needs_;
    for (int s = attrs_.first_shard(table); s < attrs_.first_shard(table + 1); ++s) {
      rows.push_back(shards.num_rows(s));
      deferred.shards.push_back(shards.shards()[s]);
    }
    // Which ids are where depends on all shards; if one is missing, the lookup says so.
    if (*std::min_element(rows.begin(), rows.end()) < 0) rows.assign(rows.size(), 0);
    deferred.partition = TableShards(attrs_.partition(table), std::move(rows));
    return deferred;
  }

  // What belongs together does not matter: ids may have any shape.
  Bags IdsOf(const Tensor& ids, int lookup) const {
    Bags bags;
    bags.wide_ids = ids.dtype() == tensorflow::DT_INT64;
    bags.ids = ids.tensor_data().data();
    bags.num_ids = ids.NumElements();
    bags.default_id = attrs_.default_ids[lookup];
    return bags;
  }

  GroupAttrs attrs_;
  DeferredNeeds needs_ = DeferredNeeds::kAll;
};

class CatchUpPackedKernel : public CatchUpKernel {
 public:
  explicit CatchUpPackedKernel(OpKernelConstruction* ctx) : CatchUpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadNeeds(ctx, &needs_));
  }

 protected:
  void CatchUpRows(OpKernelContext* ctx, const ShardsToCatchUp& shards,
                   Parallel* parallel) override {
    const Tensor& request = ctx->input(ctx->num_inputs() - 1);
    const auto words = reinterpret_cast<const int64_t*>(request.tensor_data().data());
    const std::vector<ServedShard> unnamed = AnyShards(num_shards());
    std::vector<RequestedRows> requested;
    // The gather reports what is wrong with a request.
    if (!ReadRequest(words, request.NumElements(), unnamed, &requested).ok()) return;
    CatchUp(shards.shards(), requested, needs_, BestRowKernels(), parallel);
  }

 private:
  DeferredNeeds needs_ = DeferredNeeds::kAll;
};

class CatchUpExchangedKernel : public CatchUpKernel {
 public:
  explicit CatchUpExchangedKernel(OpKernelConstruction* ctx) : CatchUpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("served", &served_));
    OP_REQUIRES_OK(ctx, ReadNeeds(ctx, &needs_));
    for (int shard : served_) {
      OP_REQUIRES(
          ctx, shard >= 0 && shard < num_shards(),
          errors::InvalidArgument(name(), ": served names shard ", shard, " of ", num_shards()));
    }
  }

 protected:
  void CatchUpRows(OpKernelContext* ctx, const ShardsToCatchUp& shards,
                   Parallel* parallel) override {
    const Tensor* requests = nullptr;
    std::vector<int64_t> splits;
    OP_REQUIRES_OK(ctx, ctx->input("requests", &requests));
    OP_REQUIRES_OK(ctx, ReadSplits(ctx, name(), &splits));
    const auto words = reinterpret_cast<const int64_t*>(requests->tensor_data().data());
    const std::vector<ServedShard> unnamed = AnyShards(served_.size());
    ReceivedRequests received;
    // The gather reports what is wrong with a request, and what ranks sent in place of one.
    if (!ReadRequests(words, requests->NumElements(), splits, unnamed, &received).ok()) return;
    std::vector<DeferredShard> asked;
    for (int shard : served_) asked.push_back(shards.shards()[shard]);
    for (const std::vector<RequestedRows>& requested : received.ranks) {
      CatchUp(asked, requested, needs_, BestRowKernels(), parallel);
    }
  }

 private:
  std::vector<int> served_;
  DeferredNeeds needs_ = DeferredNeeds::kAll;
};

class CatchUpAllKernel : public CatchUpKernel {
 public:
  using CatchUpKernel::CatchUpKernel;

 protected:
  // An update of the same run has to know of this one.
  bool IsDone(const ShardsToCatchUp&) const override { return false; }

  void CatchUpRows(OpKernelContext* ctx, const ShardsToCatchUp& shards,
                   Parallel* parallel) override {
    CatchUpAll(shards.shards(), ctx->step_id(), BestRowKernels(), parallel);
  }
};

#define CPU(op, Kernel)                                                     \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), Kernel); \
  REGISTER_KERNEL_BUILDER(Name("Resource" op).Device(tensorflow::DEVICE_CPU), Kernel)
CPU("GroupEmbeddingCatchUp", CatchUpLookupKernel);
CPU("GroupEmbeddingCatchUpPacked", CatchUpPackedKernel);
CPU("GroupEmbeddingCatchUpExchanged", CatchUpExchangedKernel);
CPU("GroupEmbeddingCatchUpAll", CatchUpAllKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
