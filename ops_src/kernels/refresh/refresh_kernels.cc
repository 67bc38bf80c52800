#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/looked_up_tables.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/refresh/ahead_tables.h"
#include "kernels/refresh/missed_rows.h"
#include "kernels/refresh/refresh_counts.h"
#include "kernels/refresh/row_logs.h"
#include "kernels/tensorflow_compat.h"
#include "lookup/refresh_bags.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Variables of a process's own session, which nobody else can write. Those of a server may be.
bool IsOwnDevice(OpKernelContext* ctx) {
  tensorflow::DeviceNameUtils::ParsedName name;
  return tensorflow::DeviceNameUtils::ParseFullName(ctx->device()->name(), &name) &&
         (!name.has_job || name.job == "localhost");
}

class RowLogPositionKernel : public OpKernel {
 public:
  explicit RowLogPositionKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, logs_.Read(ctx));
    OP_REQUIRES_OK(ctx, ahead_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_shards", &table_shards_));
    const int shards = std::accumulate(table_shards_.begin(), table_shards_.end(), 0);
    OP_REQUIRES(
        ctx, ahead_.empty() || shards == logs_.size(),
        errors::InvalidArgument(name(), ": table_shards has ", shards, " shards and row_logs ",
                                logs_.size(), "; ahead_choice needs as many"));
    if (!ahead_.empty()) FindLogged();
  }

  void Compute(OpKernelContext* ctx) override {
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({logs_.size()}), &output));
    auto positions = output->flat<tensorflow::int64>();
    std::vector<bool> ahead;
    OP_REQUIRES_OK(ctx, ChooseShards(ctx, &ahead));
    const bool is_own = IsOwnDevice(ctx);
    for (int i = 0; i < logs_.size(); ++i) {
      RowLogs::Pointer found;
      if (is_own && ahead[i]) OP_REQUIRES_OK(ctx, logs_.Find(ctx, i, &found));
      positions(i) = found == nullptr ? -1 : found->log()->TakePosition();
    }
  }

 private:
  void FindLogged() {
    int shard = 0;
    for (const int count : table_shards_) {
      bool is_logged = true;
      for (const int end = shard + count; shard < end; ++shard) is_logged &= logs_.has(shard);
      are_logged_.push_back(is_logged);
    }
  }

  // Whether each shard is of a table that is looked up ahead. Without a position a step looks up
  // all the rows.
  Status ChooseShards(OpKernelContext* ctx, std::vector<bool>* shards) const {
    shards->assign(logs_.size(), true);
    if (ahead_.empty()) return Status();
    std::vector<bool> tables;
    TF_RETURN_IF_ERROR(ahead_.Choose(ctx, are_logged_, &tables));
    auto shard = shards->begin();
    for (size_t t = 0; t < tables.size(); ++t) {
      shard = std::fill_n(shard, table_shards_[t], tables[t]);
    }
    return Status();
  }

  RowLogs logs_;
  AheadTables ahead_;
  std::vector<int> table_shards_;
  std::vector<bool> are_logged_;  // tables; others are always ahead, as no step looks them up again
};

class GroupRefreshKernel : public OpKernel {
 public:
  explicit GroupRefreshKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, missed_.Read(ctx, attrs_.num_shards()));
    shards_.resize(attrs_.num_shards());
    std::iota(shards_.begin(), shards_.end(), 0);
    OP_REQUIRES_OK(ctx, ahead_.Read(ctx));
    OP_REQUIRES_OK(ctx, counts_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    LookedUpTables tables;
    GroupInputs inputs;
    std::vector<ChangedRows> changed;
    OP_REQUIRES_OK(ctx, FindChanged(ctx, &changed));
    OP_REQUIRES_OK(ctx, tables.Open(ctx, attrs_));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    int first_read, end_read;
    OP_REQUIRES_OK(ctx, InputRange("read", &first_read, &end_read));
    std::vector<Lookup> lookups;
    OP_REQUIRES_OK(ctx, AllocatePooled(ctx, attrs_, inputs, tables.dims(), tables.dtypes(),
                                       &lookups, first_read));
    DeviceThreads threads(ctx, BytesOf(RowsOf(tables.tables(), lookups)));
    std::vector<RefreshedLookup> refreshed;
    const BagFault fault =
        RefreshBags(tables.tables(), changed, lookups, BestRowKernels(), &threads, &refreshed);
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, tables.rows(), name()));
    std::vector<bool> ahead;
    OP_REQUIRES_OK(ctx, ReadAhead(ctx, &ahead));
    if (!ahead_.empty()) OP_REQUIRES_OK(ctx, Learn(ctx, ahead, refreshed));
    OP_REQUIRES_OK(ctx, counts_.Tell(ctx, attrs_, ahead, refreshed));
  }

 private:
  Status FindChanged(OpKernelContext* ctx, std::vector<ChangedRows>* changed) const {
    std::vector<RowSet> rows;
    TF_RETURN_IF_ERROR(missed_.Find(ctx, shards_, &rows));
    changed->resize(attrs_.num_tables());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      (*changed)[t].shards.assign(
          std::make_move_iterator(rows.begin() + attrs_.first_shard(t)),
          std::make_move_iterator(rows.begin() + attrs_.first_shard(t + 1)));
    }
    return Status();
  }

  // Which tables were looked up ahead: those with a position.
  Status ReadAhead(OpKernelContext* ctx, std::vector<bool>* ahead) const {
    const Tensor* position = nullptr;
    TF_RETURN_IF_ERROR(ctx->input("log_position", &position));
    const auto positions = position->flat<tensorflow::int64>();
    ahead->clear();
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      ahead->push_back(positions(attrs_.first_shard(t)) >= 0);
    }
    return Status();
  }

  Status Learn(OpKernelContext* ctx, const std::vector<bool>& ahead,
               const std::vector<RefreshedLookup>& refreshed) const {
    std::vector<int64_t> bags(attrs_.num_tables(), 0);
    std::vector<int64_t> again(attrs_.num_tables(), 0);
    for (size_t i = 0; i < refreshed.size(); ++i) {
      const int table = attrs_.lookup_tables[i];
      if (!ahead[table]) continue;
      bags[table] += refreshed[i].bags;
      again[table] += refreshed[i].changed_bags;
    }
    return ahead_.Learn(ctx, bags, again);
  }

  GroupAttrs attrs_;
  MissedRows missed_;
  std::vector<int> shards_;  // all of them
  AheadTables ahead_;
  RefreshCounts counts_;
  ScratchUser scratch_;
};

// Ends with the step that it belongs to, by when whatever the step writes has been written.
class StepsEnd : public tensorflow::ResourceBase {
 public:
  explicit StepsEnd(RowLogs::Pointer log) : log_(std::move(log)) {}
  ~StepsEnd() override { log_->log()->AppendAll(); }

  std::string DebugString() const override { return "a step that writes a table"; }

 private:
  const RowLogs::Pointer log_;
};

class RowLogAllKernel : public OpKernel {
 public:
  explicit RowLogAllKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, logs_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    for (int i = 0; i < logs_.size(); ++i) {
      RowLogs::Pointer found;
      OP_REQUIRES_OK(ctx, logs_.Find(ctx, i, &found));
      if (found == nullptr) continue;
      const std::string key = "row_log_" + name() + std::to_string(i);
      const Status made = CreateInStep(ctx, key, new StepsEnd(std::move(found)));
      if (!errors::IsAlreadyExists(made)) OP_REQUIRES_OK(ctx, made);
    }
  }

 private:
  RowLogs logs_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingRefresh"), GroupRefreshKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingRefresh"), GroupRefreshKernel);
REGISTER_KERNEL_BUILDER(CPU("RowLogPosition"), RowLogPositionKernel);
REGISTER_KERNEL_BUILDER(CPU("RowLogAll"), RowLogAllKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
