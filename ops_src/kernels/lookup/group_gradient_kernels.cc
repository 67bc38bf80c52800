#include <utility>
#include <vector>

#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/group_kernel.h"
#include "kernels/lookup/looked_up_tables.h"
#include "kernels/lookup/pooled_rows.h"
#include "lookup/group_gradient.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupGradKernel : public GroupKernel {
 public:
  using GroupKernel::GroupKernel;

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    std::vector<GradientTable> tables;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> table_rows;
    OP_REQUIRES_OK(ctx, ReadTables(ctx, inputs, &tables, &lookups, &table_rows));
    DeviceThreads threads(ctx, BytesOfGradients(tables, lookups));
    GroupGradient gradient(tables, lookups, BestRowKernels(), &threads);
    const BagFault fault = gradient.Sort();
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, table_rows, name()));
    std::vector<std::vector<GroupGradient::ShardSums>> sums(tables.size());
    OP_REQUIRES_OK(ctx, Allocate(ctx, tables, gradient, &sums));
    gradient.SumRows(sums);
  }

 private:
  Status ReadTables(OpKernelContext* ctx, const GroupInputs& inputs,
                    std::vector<GradientTable>* tables, std::vector<PooledGradient>* lookups,
                    std::vector<int64_t>* table_rows) {
    const Tensor* rows = nullptr;
    std::vector<int64_t> dims;
    TF_RETURN_IF_ERROR(ctx->input("table_rows", &rows));
    TF_RETURN_IF_ERROR(ReadGradients(ctx, attrs_, inputs, lookups, &dims));
    if (rows->NumElements() != attrs_.num_shards()) {
      return errors::InvalidArgument(name(), ": table_rows has ", rows->NumElements(),
                                     " entries, need one for each of the ", attrs_.num_shards(),
                                     " shards");
    }
    const auto counts = rows->flat<tensorflow::int64>();
    tables->resize(attrs_.num_tables());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      std::vector<int64_t> shard_rows;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        if (counts(s) < 0) return errors::InvalidArgument(name(), ": table_rows has ", counts(s));
        shard_rows.push_back(counts(s));
      }
      (*tables)[t].shards = TableShards(attrs_.partition(t), std::move(shard_rows));
      (*tables)[t].dim = dims[t];
      table_rows->push_back((*tables)[t].shards.num_rows());
    }
    OpInputList gradients;
    TF_RETURN_IF_ERROR(ctx->input_list("gradients", &gradients));
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      const int table = attrs_.lookup_tables[i];
      const DataType dtype = gradients[attrs_.pooled_of(i)].dtype();
      TF_RETURN_IF_ERROR(RowTypeOf(dtype, &(*tables)[table].type));
      const int first_values = attrs_.num_shards() + attrs_.first_shard(table);
      if (ctx->expected_output_dtype(first_values) != dtype) {
        return errors::InvalidArgument(name(), ": the gradient of lookup ", i,
                                       " is not of its table's type");
      }
    }
    return Status();
  }

  Status Allocate(OpKernelContext* ctx, const std::vector<GradientTable>& tables,
                  const GroupGradient& gradient,
                  std::vector<std::vector<GroupGradient::ShardSums>>* sums) {
    OpOutputList indices;
    OpOutputList values;
    TF_RETURN_IF_ERROR(ctx->output_list("indices", &indices));
    TF_RETURN_IF_ERROR(ctx->output_list("values", &values));
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int shard = 0; shard < tables[t].shards.num_shards(); ++shard) {
        const int64_t rows = gradient.NumRows(t, shard);
        const int output = attrs_.first_shard(t) + shard;
        Tensor* index = nullptr;
        Tensor* value = nullptr;
        TF_RETURN_IF_ERROR(indices.allocate(output, TensorShape({rows}), &index));
        TF_RETURN_IF_ERROR(values.allocate(output, TensorShape({rows, tables[t].dim}), &value));
        (*sums)[t].push_back(GroupGradient::ShardSums{
            reinterpret_cast<int64_t*>(index->flat<tensorflow::int64>().data()),
            const_cast<char*>(value->tensor_data().data())});
      }
    }
    return Status();
  }
};

class GroupWeightsGradKernel : public GroupKernel {
 public:
  using GroupKernel::GroupKernel;

  void Compute(OpKernelContext* ctx) override {
    LookedUpTables tables;
    GroupInputs inputs;
    OpInputList gradients;
    OpInputList weights;
    std::vector<PooledGradient> pooled;
    std::vector<int64_t> dims;
    OP_REQUIRES_OK(ctx, tables.Open(ctx, attrs_));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ctx->input_list("gradients", &gradients));
    OP_REQUIRES_OK(ctx, ctx->input_list("weights", &weights));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &pooled, &dims));
    std::vector<WeightGradient> lookups;
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      if (!attrs_.weighted[i]) continue;
      const int table = attrs_.lookup_tables[i];
      OP_REQUIRES(ctx,
                  dims[table] == tables.dims()[table] &&
                      gradients[attrs_.pooled_of(i)].dtype() == tables.dtypes()[table],
                  errors::InvalidArgument(name(), ": the gradient of lookup ", i,
                                          " does not fit table '", attrs_.table_names[table], "'"));
      const int output = static_cast<int>(lookups.size());
      Tensor* weight_gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(output, weights[output].shape(), &weight_gradient));
      WeightGradient lookup;
      lookup.bags = inputs.bags(i);
      lookup.table = table;
      lookup.gradients = pooled[i].gradients;
      lookup.stride = pooled[i].stride;
      lookup.weight_gradients = weight_gradient->flat<float>().data();
      lookups.push_back(lookup);
    }
    DeviceThreads threads(ctx, BytesOf(RowsOf(tables.tables(), lookups)));
    const BagFault fault = GroupWeightGradient(tables.tables(), lookups, &threads);
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, tables.rows(), name()));
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingGrad"), GroupGradKernel);
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingWeightsGrad"), GroupWeightsGradKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceGroupEmbeddingWeightsGrad"), GroupWeightsGradKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
