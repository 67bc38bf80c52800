#include <vector>

#include "cuda/host_group.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_gpu.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Waits for the device once: only the device knows how many rows have a gradient.
class GroupGradGpuKernel : public GroupGpuKernel {
 public:
  using GroupGpuKernel::GroupGpuKernel;

  void Compute(OpKernelContext* ctx) override {
    GpuGroupInputs inputs(ctx);
    GpuGroup group;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> dims;
    Tensor workspace;
    uint64_t* fault = nullptr;
    void* const stream = GpuStreamOf(ctx);
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &lookups, &dims));
    OP_REQUIRES_OK(ctx, AddTables(ctx, dims, &group));
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      const PooledGradient& lookup = lookups[i];
      group.AddLookup(lookup.bags, inputs.sizes(i), lookup.table, lookup.gradients, lookup.stride);
    }
    if (!TrustsGpuKernels(ctx)) return SumOnHost(ctx, dims, &group);
    const int64_t bytes = graph_opt_cuda_sort_workspace(group.get());
    OP_REQUIRES_OK(ctx, AllocateWorkspace(ctx, bytes, &workspace));
    OP_REQUIRES_OK(ctx, faults_.Begin(ctx, attrs_, &fault));
    int32_t status = graph_opt_cuda_sort(group.get(), DataOf(workspace), fault, stream);
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
    OP_REQUIRES_OK(ctx, faults_.Queue(ctx));
    std::vector<int64_t> counts(attrs_.num_shards());
    status = graph_opt_cuda_count_rows(group.get(), DataOf(workspace), counts.data(), stream);
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
    OP_REQUIRES_OK(ctx, faults_.Take(ctx, attrs_));
    OP_REQUIRES_OK(ctx, Allocate(ctx, dims, counts, &group));
    status = graph_opt_cuda_sum(group.get(), DataOf(workspace), stream);
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
  }

 private:
  void SumOnHost(OpKernelContext* ctx, const std::vector<int64_t>& dims, GpuGroup* group) {
    DeviceThreads threads(ctx);
    HostGroup host(*group->get(), GpuStreamOf(ctx), &threads);
    BagFault fault;
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), host.Sort(&fault)));
    OP_REQUIRES_OK(ctx, FaultOf(fault, *group));
    std::vector<int64_t> counts;
    for (int s = 0; s < attrs_.num_shards(); ++s) counts.push_back(host.NumRows(s));
    OP_REQUIRES_OK(ctx, Allocate(ctx, dims, counts, group));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), host.Sum()));
  }

  Status AddTables(OpKernelContext* ctx, const std::vector<int64_t>& dims, GpuGroup* group) {
    const Tensor* rows = nullptr;
    OpInputList gradients;
    TF_RETURN_IF_ERROR(ctx->input("table_rows", &rows));
    TF_RETURN_IF_ERROR(ctx->input_list("gradients", &gradients));
    if (rows->NumElements() != attrs_.num_shards()) {
      return errors::InvalidArgument(name(), ": table_rows has ", rows->NumElements(),
                                     " entries, need one for each of the ", attrs_.num_shards(),
                                     " shards");
    }
    std::vector<RowType> types(attrs_.num_tables());
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      const int table = attrs_.lookup_tables[i];
      const DataType dtype = gradients[attrs_.pooled_of(i)].dtype();
      TF_RETURN_IF_ERROR(RowTypeOf(dtype, &types[table]));
      const int first_values = attrs_.num_shards() + attrs_.first_shard(table);
      if (ctx->expected_output_dtype(first_values) != dtype) {
        return errors::InvalidArgument(name(), ": the gradient of lookup ", i,
                                       " is not of its table's type");
      }
    }
    const auto counts = rows->flat<tensorflow::int64>();
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      std::vector<GraphOptCudaShard> shards;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        if (counts(s) < 0) return errors::InvalidArgument(name(), ": table_rows has ", counts(s));
        GraphOptCudaShard shard = {};
        shard.num_rows = counts(s);
        shards.push_back(shard);
      }
      group->AddTable(dims[t], types[t], attrs_.partition(t), shards);
    }
    return Status();
  }

  Status Allocate(OpKernelContext* ctx, const std::vector<int64_t>& dims,
                  const std::vector<int64_t>& counts, GpuGroup* group) {
    OpOutputList indices;
    OpOutputList values;
    TF_RETURN_IF_ERROR(ctx->output_list("indices", &indices));
    TF_RETURN_IF_ERROR(ctx->output_list("values", &values));
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        Tensor* index = nullptr;
        Tensor* value = nullptr;
        TF_RETURN_IF_ERROR(indices.allocate(s, TensorShape({counts[s]}), &index));
        TF_RETURN_IF_ERROR(values.allocate(s, TensorShape({counts[s], dims[t]}), &value));
        group->shards()[s].indices = static_cast<int64_t*>(DataOf(*index));
        group->shards()[s].sums = DataOf(*value);
      }
    }
    return Status();
  }
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingGrad")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("shapes")
                            .HostMemory("table_rows"),
                        GroupGradGpuKernel);

}  // namespace
}  // namespace graph_opt
