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
#include "kernels/refresh/missed_rows.h"
#include "kernels/refresh/row_logs.h"
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
  }

  void Compute(OpKernelContext* ctx) override {
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({logs_.size()}), &output));
    auto positions = output->flat<tensorflow::int64>();
    const bool is_own = IsOwnDevice(ctx);
    for (int i = 0; i < logs_.size(); ++i) {
      RowLogs::Pointer found;
      OP_REQUIRES_OK(ctx, logs_.Find(ctx, i, &found));
      positions(i) = is_own && found != nullptr ? found->log()->Position() : -1;
    }
  }

 private:
  RowLogs logs_;
};

class GroupRefreshKernel : public OpKernel {
 public:
  explicit GroupRefreshKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, missed_.Read(ctx, attrs_.num_shards()));
    shards_.resize(attrs_.num_shards());
    std::iota(shards_.begin(), shards_.end(), 0);
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
    DeviceThreads threads(ctx);
    RefreshedIds ids;
    const BagFault fault =
        RefreshBags(tables.tables(), changed, lookups, BestRowKernels(), &threads, &ids);
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, tables.rows(), name()));
    Tensor* counts = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(num_outputs() - 1, TensorShape({2}), &counts));
    counts->flat<tensorflow::int64>()(0) = ids.all;
    counts->flat<tensorflow::int64>()(1) = ids.changed;
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

  GroupAttrs attrs_;
  MissedRows missed_;
  std::vector<int> shards_;  // all of them
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
      const Status made = ctx->step_container()->Create(ctx->resource_manager(), key,
                                                        new StepsEnd(std::move(found)));
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
