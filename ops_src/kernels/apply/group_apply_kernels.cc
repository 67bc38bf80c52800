#include <string>
#include <utility>
#include <vector>

#include "apply/group_apply.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/deferred/deferred_step.h"
#include "kernels/deferred/row_states.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/refresh/row_logs.h"
#include "pages/moving_tables.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupApplyKernel : public OpKernel {
 public:
  explicit GroupApplyKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, optimizer_.Read(ctx, attrs_.num_shards()));
    OP_REQUIRES_OK(ctx, logs_.Read(ctx, attrs_.num_shards()));
    OP_REQUIRES_OK(ctx, states_.Read(ctx, attrs_.num_shards(), RowStates::kUpdate));
    if (states_.empty()) return;
    OP_REQUIRES_OK(ctx, optimizer_.RequireShared(name()));
    OP_REQUIRES_OK(ctx, CheckDeferred(name(), optimizer_.usual(), optimizer_.averaged()));
  }

  void Compute(OpKernelContext* ctx) override {
    VariableTables variables;
    GroupInputs inputs;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> dims;
    std::vector<UpdatedTable> tables;
    std::vector<int64_t> table_rows;
    Optimizer optimizer;
    std::vector<Optimizer> of_shards;
    OP_REQUIRES_OK(ctx, states_.CatchUpOthers(ctx, optimizer_.slots_of_shard()));
    OP_REQUIRES_OK(ctx, optimizer_.Open(ctx, &variables));
    variables.MoveToLargePages(&moving_);
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &lookups, &dims));
    OP_REQUIRES_OK(ctx, ReadTables(&variables, dims, &tables, &table_rows));
    OP_REQUIRES_OK(ctx, optimizer_.ReadHyperparameters(ctx, &optimizer, &of_shards));
    SetOptimizers(of_shards, &tables);
    DeviceThreads all(ctx);  // a deferred step may begin with a pass over its tables
    DeferredStep step;
    OP_REQUIRES_OK(ctx, step.Open(ctx, states_, optimizer_, &variables));
    SetDeferred(step, &tables);
    OP_REQUIRES_OK(ctx, step.Begin(ctx, optimizer, &all));
    const std::vector<GradientTable> plain = PlainTables(tables);
    DeviceThreads threads(ctx, BytesOfGradients(plain, lookups));
    const BagFault fault = GroupApply(optimizer, tables, lookups, BestRowKernels(), &threads);
    // Also after a fault, as tables without one have been written.
    OP_REQUIRES_OK(ctx, logs_.Append(ctx, attrs_, plain, lookups, &threads));
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, table_rows, name()));
  }

 private:
  Status ReadTables(VariableTables* variables, const std::vector<int64_t>& dims,
                    std::vector<UpdatedTable>* tables, std::vector<int64_t>* table_rows) {
    tables->resize(attrs_.num_tables());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      UpdatedTable& table = (*tables)[t];
      std::vector<int64_t> rows;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        TF_RETURN_IF_ERROR(CheckPart(*variables, t, s, dims[t]));
        const TableMemory memory = variables->memory(s);
        UpdatedTable::Shard shard;
        shard.rows = reinterpret_cast<float*>(memory.data);
        shard.stride = memory.stride / static_cast<int64_t>(sizeof(float));
        shard.first_row = memory.first_row;
        shard.dynamic = variables->dynamic_table(s);
        TF_RETURN_IF_ERROR(
            optimizer_.SlotsOf(name(), variables, s, attrs_.table_names[t], shard.slots));
        rows.push_back(memory.num_rows);
        table.shards.push_back(shard);
      }
      table.table.shards = TableShards(attrs_.partition(t), std::move(rows));
      table.table.dim = dims[t];
      table_rows->push_back(table.table.shards.num_rows());
    }
    return Status();
  }

  Status CheckPart(const VariableTables& variables, int table, int shard, int64_t dim) const {
    const Tensor& tensor = variables[shard];
    const bool is_dynamic = variables.dynamic_table(shard) != nullptr;
    if (is_dynamic && !states_.empty()) {
      return errors::InvalidArgument(name(), ": table '", attrs_.table_names[table],
                                     "' is dynamic; updates of such tables are not deferred");
    }
    if (tensor.dtype() == tensorflow::DT_FLOAT && (is_dynamic || tensor.dims() == 2) &&
        variables.memory(shard).dim == dim) {
      return Status();
    }
    return errors::InvalidArgument(name(), ": table '", attrs_.table_names[table],
                                   "' has a part of shape ", tensor.shape().DebugString(),
                                   " and type ", tensorflow::DataTypeString(tensor.dtype()),
                                   "; need [rows, ", dim, "] of float32");
  }

  void SetOptimizers(const std::vector<Optimizer>& of_shards,
                     std::vector<UpdatedTable>* tables) const {
    if (of_shards.empty()) return;
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      const int first = attrs_.first_shard(t);
      for (int s = first; s < attrs_.first_shard(t + 1); ++s) {
        (*tables)[t].shards[s - first].optimizer = &of_shards[s];
      }
    }
  }

  void SetDeferred(const DeferredStep& step, std::vector<UpdatedTable>* tables) const {
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      const int first = attrs_.first_shard(t);
      for (int s = first; s < attrs_.first_shard(t + 1); ++s) {
        (*tables)[t].shards[s - first].deferred = step.rows(s);
      }
    }
  }

  static std::vector<GradientTable> PlainTables(const std::vector<UpdatedTable>& tables) {
    std::vector<GradientTable> plain;
    for (const UpdatedTable& table : tables) plain.push_back(table.table);
    return plain;
  }

  GroupAttrs attrs_;
  OptimizerInputs optimizer_;
  UpdateLogs logs_;
  RowStates states_;
  MovingTables moving_;
  ScratchUser scratch_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingApply"), GroupApplyKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingApply"), GroupApplyKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
