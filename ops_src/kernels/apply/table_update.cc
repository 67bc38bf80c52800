#include "kernels/apply/table_update.h"

#include "kernels/deferred/deferred_step.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status TableUpdate::Read(OpKernelConstruction* ctx, int num_shards) {
  const std::string& op = ctx->def().name();
  TF_RETURN_IF_ERROR(optimizer_.Read(ctx, num_shards));
  TF_RETURN_IF_ERROR(logs_.Read(ctx, num_shards));
  TF_RETURN_IF_ERROR(states_.Read(ctx, num_shards, RowStates::kUpdate));
  if (states_.empty()) return Status();
  TF_RETURN_IF_ERROR(optimizer_.RequireShared(op));
  return CheckDeferred(op, optimizer_.usual(), optimizer_.averaged());
}

Status TableUpdate::Open(OpKernelContext* ctx, VariableTables* variables) {
  TF_RETURN_IF_ERROR(states_.CatchUpOthers(ctx, optimizer_.slots_of_shard()));
  TF_RETURN_IF_ERROR(optimizer_.Open(ctx, variables));
  variables->MoveToLargePages(&moving_);
  return Status();
}

Status TableUpdate::ReadShard(const std::string& op, VariableTables* variables, int shard,
                              const std::string& table, int64_t dim,
                              UpdatedTable::Shard* found) const {
  const Tensor& tensor = (*variables)[shard];
  DynamicTable* const dynamic = variables->dynamic_table(shard);
  if (dynamic != nullptr && !states_.empty()) {
    return errors::InvalidArgument(op, ": table '", table,
                                   "' is dynamic; updates of such tables are not deferred");
  }
  if (tensor.dtype() != tensorflow::DT_FLOAT || (dynamic == nullptr && tensor.dims() != 2) ||
      variables->memory(shard).dim != dim) {
    return errors::InvalidArgument(op, ": table '", table, "' has a part of shape ",
                                   tensor.shape().DebugString(), " and type ",
                                   tensorflow::DataTypeString(tensor.dtype()), "; need [rows, ",
                                   dim, "] of float32");
  }
  const TableMemory memory = variables->memory(shard);
  found->rows = reinterpret_cast<float*>(memory.data);
  found->stride = memory.stride / static_cast<int64_t>(sizeof(float));
  found->first_row = memory.first_row;
  found->dynamic = dynamic;
  return optimizer_.SlotsOf(op, variables, shard, table, found->slots);
}

Status TableUpdate::Apply(OpKernelContext* ctx, const std::vector<int>& first_shards,
                          const std::vector<PooledGradient>& lookups, VariableTables* variables,
                          std::vector<UpdatedTable>* tables, BagFault* fault) const {
  Optimizer optimizer;
  std::vector<Optimizer> of_shards;
  TF_RETURN_IF_ERROR(optimizer_.ReadHyperparameters(ctx, &optimizer, &of_shards));
  DeviceThreads all(ctx);  // a deferred step may begin with a pass over its tables
  DeferredStep step;
  TF_RETURN_IF_ERROR(step.Open(ctx, states_, optimizer_, variables));
  std::vector<GradientTable> plain;
  for (size_t t = 0; t < tables->size(); ++t) {
    UpdatedTable& table = (*tables)[t];
    plain.push_back(table.table);
    for (int s = first_shards[t]; s < first_shards[t + 1]; ++s) {
      UpdatedTable::Shard& shard = table.shards[s - first_shards[t]];
      if (!of_shards.empty()) shard.optimizer = &of_shards[s];
      shard.deferred = step.rows(s);
    }
  }
  TF_RETURN_IF_ERROR(step.Begin(ctx, optimizer, &all));
  DeviceThreads threads(ctx, BytesOfGradients(plain, lookups));
  *fault = GroupApply(optimizer, *tables, lookups, BestRowKernels(), &threads);
  // Also after a fault, as tables without one have been written.
  return logs_.Append(ctx, first_shards, plain, lookups, &threads);
}

}  // namespace graph_opt
