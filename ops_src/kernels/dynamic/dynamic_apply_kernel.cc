#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apply/group_apply.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "scratch/scratch_array.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class DynamicApplyKernel : public OpKernel {
 public:
  explicit DynamicApplyKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, optimizer_.Read(ctx, 1));
    std::vector<std::string> row_states;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("row_states", &row_states));
    OP_REQUIRES(ctx, row_states.empty() && !optimizer_.averaged(),
                errors::InvalidArgument(name(),
                                        ": updates of dynamic tables are not deferred, and "
                                        "have no averages"));
  }

  void Compute(OpKernelContext* ctx) override {
    OpenDynamicTable open;
    std::vector<int> slots(optimizer_.num_slots());
    Optimizer optimizer;
    OP_REQUIRES_OK(ctx, OpenTable(ctx, 0, &open));
    DynamicTable* const table = open.table.get();
    for (int i = 0; i < optimizer_.num_slots(); ++i) {
      OP_REQUIRES_OK(ctx, OpenSlotOf(ctx, 1 + i, *table, &slots[i]));
    }
    OP_REQUIRES_OK(ctx, optimizer_.ReadHyperparameters(ctx, &optimizer));
    const Tensor& keys = ctx->input(ctx->num_inputs() - 2);
    const Tensor& gradients = ctx->input(ctx->num_inputs() - 1);
    const int64_t n = keys.NumElements();
    OP_REQUIRES(ctx,
                keys.dims() == 1 && gradients.dims() == 2 && gradients.dim_size(0) == n &&
                    gradients.dim_size(1) == table->dim(),
                errors::InvalidArgument(name(), ": keys of shape ", keys.shape().DebugString(),
                                        " and gradients of shape ", gradients.shape().DebugString(),
                                        " for dynamic table '", table->options().name,
                                        "'; need [n] and [n, ", table->dim(), "]"));
    const int64_t row_bytes = table->dim() * static_cast<int64_t>(sizeof(float));
    DeviceThreads threads(ctx, table->BytesToFind(n) + BytesOfGradients(n, row_bytes));
    const WideKeys wide(keys);
    ScratchArray<int64_t> rows(n);
    std::shared_ptr<Hold> hold;
    DynamicTable::Find find;
    find.keys = wide.data();
    find.num_keys = n;
    find.purpose = DynamicTable::Purpose::kRead;
    const bool alone = optimizer_.purpose() == VariableTables::kUpdateExclusively;
    const UpdateLock lock(open.resource->update_mutex(), alone);
    const DynamicTable::ReadLock read_lock(table);
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), table->FindRows(find, &threads, rows.data(), &hold)));
    table->WillWrite(rows.data(), n);
    const BagFault fault = Apply(optimizer, table, slots, rows.data(), gradients, &threads);
    OP_REQUIRES(ctx, fault.kind == BagFault::kNone,
                errors::InvalidArgument(name(), ": too many keys for one step in dynamic table '",
                                        table->options().name, "'"));
  }

 private:
  // Shared by updates, unless this one is to run alone.
  class UpdateLock {
   public:
    UpdateLock(tensorflow::mutex* mutex, bool alone) : mutex_(mutex), alone_(alone) {
      if (alone_) {
        mutex_->lock();
      } else {
        mutex_->lock_shared();
      }
    }
    ~UpdateLock() {
      if (alone_) {
        mutex_->unlock();
      } else {
        mutex_->unlock_shared();
      }
    }

   private:
    tensorflow::mutex* const mutex_;
    const bool alone_;
  };

  // Slices are the gradient of a lookup of their rows if that of its result is their values.
  static BagFault Apply(const Optimizer& optimizer, DynamicTable* table,
                        const std::vector<int>& slots, const int64_t* rows, const Tensor& gradients,
                        Parallel* parallel) {
    const DynamicTable::Rows places = table->rows();
    std::vector<UpdatedTable> tables(1);
    tables[0].table.shards = TableShards(Partition::kMod, {places.end});
    tables[0].table.dim = table->dim();
    UpdatedTable::Shard shard = {};
    shard.rows = reinterpret_cast<float*>(places.base);
    for (size_t i = 0; i < slots.size(); ++i) {
      shard.slots[i] = shard.rows + (1 + slots[i]) * table->dim();
    }
    shard.stride = places.stride / static_cast<int64_t>(sizeof(float));
    shard.first_row = places.first_row;
    tables[0].shards.push_back(shard);
    std::vector<PooledGradient> lookups(1);
    PooledGradient& lookup = lookups[0];
    lookup.bags.layout = Bags::kDense;
    lookup.bags.combiner = Combiner::kSum;
    lookup.bags.wide_ids = true;
    lookup.bags.ids = rows;
    lookup.bags.num_ids = lookup.bags.num_bags = gradients.dim_size(0);
    lookup.bags.width = 1;
    lookup.bags.safe = false;
    lookup.gradients = gradients.tensor_data().data();
    lookup.stride = table->dim();
    return GroupApply(optimizer, tables, lookups, BestRowKernels(), parallel);
  }

  OptimizerInputs optimizer_;
  ScratchUser scratch_;
};

REGISTER_KERNEL_BUILDER(Name("DynamicTableApply").Device(tensorflow::DEVICE_CPU),
                        DynamicApplyKernel);

}  // namespace
}  // namespace graph_opt
