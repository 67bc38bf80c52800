#include <utility>
#include <vector>

#include "kernels/apply/table_update.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/lookup/variable_tables.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

class GroupApplyKernel : public OpKernel {
 public:
  explicit GroupApplyKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, update_.Read(ctx, attrs_.num_shards()));
  }

  void Compute(OpKernelContext* ctx) override {
    VariableTables variables;
    GroupInputs inputs;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> dims;
    std::vector<UpdatedTable> tables;
    std::vector<int64_t> table_rows;
    BagFault fault;
    OP_REQUIRES_OK(ctx, update_.Open(ctx, &variables));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &lookups, &dims));
    OP_REQUIRES_OK(ctx, ReadTables(&variables, dims, &tables, &table_rows));
    OP_REQUIRES_OK(ctx,
                   update_.Apply(ctx, attrs_.first_shards, lookups, &variables, &tables, &fault));
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, table_rows, name()));
  }

 private:
  Status ReadTables(VariableTables* variables, const std::vector<int64_t>& dims,
                    std::vector<UpdatedTable>* tables, std::vector<int64_t>* table_rows) const {
    tables->resize(attrs_.num_tables());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      UpdatedTable& table = (*tables)[t];
      std::vector<int64_t> rows;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        UpdatedTable::Shard shard;
        TF_RETURN_IF_ERROR(
            update_.ReadShard(name(), variables, s, attrs_.table_names[t], dims[t], &shard));
        rows.push_back(variables->memory(s).num_rows);
        table.shards.push_back(shard);
      }
      table.table.shards = TableShards(attrs_.partition(t), std::move(rows));
      table.table.dim = dims[t];
      table_rows->push_back(table.table.shards.num_rows());
    }
    return Status();
  }

  GroupAttrs attrs_;
  TableUpdate update_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingApply"), GroupApplyKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingApply"), GroupApplyKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
