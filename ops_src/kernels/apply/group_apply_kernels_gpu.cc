#include <string>
#include <vector>

#include "cuda/host_group.h"
#include "kernels/apply/optimizer_inputs.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_gpu.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupApplyGpuKernel : public OpKernel {
 public:
  explicit GroupApplyGpuKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, optimizer_.Read(ctx, attrs_.num_shards()));
    OP_REQUIRES(ctx, !optimizer_.sums_row(),
                errors::InvalidArgument(name(),
                                        ": this optimizer's formula needs sums over rows, "
                                        "which only CPUs compute; place the tables there"));
    OP_REQUIRES(ctx, optimizer_.num_own() == 0,
                errors::InvalidArgument(name(),
                                        ": own_hyperparameters are for CPUs only; place the "
                                        "tables there"));
    std::vector<std::string> row_states;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("row_states", &row_states));
    OP_REQUIRES(ctx, row_states.empty(),
                errors::InvalidArgument(name(), ": row_states names '", row_states[0],
                                        "', but updates are deferred on CPUs only; place the "
                                        "tables there, or leave row_states empty"));
  }

  void Compute(OpKernelContext* ctx) override {
    const int num_variables = attrs_.num_shards() * (1 + optimizer_.num_slots());
    VariableTables variables;
    GpuGroupInputs inputs(ctx);
    GpuGroup group;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> dims;
    Optimizer optimizer;
    Tensor workspace;
    uint64_t* fault = nullptr;
    void* const stream = GpuStreamOf(ctx);
    OP_REQUIRES_OK(ctx, variables.Open(ctx, 0, num_variables, optimizer_.purpose()));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &lookups, &dims));
    OP_REQUIRES_OK(ctx, AddTables(&variables, dims, &group));
    OP_REQUIRES_OK(ctx, optimizer_.ReadHyperparameters(ctx, &optimizer));
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      const PooledGradient& lookup = lookups[i];
      group.AddLookup(lookup.bags, inputs.sizes(i), lookup.table, lookup.gradients, lookup.stride);
    }
    if (!TrustsGpuKernels(ctx)) return ApplyOnHost(ctx, optimizer, &group);
    const int64_t bytes = graph_opt_cuda_sort_workspace(group.get());
    OP_REQUIRES_OK(ctx, AllocateWorkspace(ctx, bytes, &workspace));
    void* const memory = const_cast<char*>(workspace.tensor_data().data());
    OP_REQUIRES_OK(ctx, faults_.Begin(ctx, attrs_, &fault));
    int32_t status = graph_opt_cuda_sort(group.get(), memory, fault, stream);
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
    status = graph_opt_cuda_apply(group.get(), &optimizer, memory, stream);
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
    OP_REQUIRES_OK(ctx, faults_.Queue(ctx));
  }

 private:
  void ApplyOnHost(OpKernelContext* ctx, const Optimizer& optimizer, GpuGroup* group) {
    DeviceThreads threads(ctx);
    HostGroup host(*group->get(), GpuStreamOf(ctx), &threads);
    BagFault fault;
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), host.Sort(&fault)));
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, group->TableRows(), name()));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), host.Apply(optimizer)));
  }

  Status AddTables(VariableTables* variables, const std::vector<int64_t>& dims, GpuGroup* group) {
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      const std::string& table = attrs_.table_names[t];
      std::vector<GraphOptCudaShard> shards;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const Tensor& tensor = (*variables)[s];
        if (tensor.dims() != 2 || tensor.dim_size(1) != dims[t] ||
            tensor.dtype() != tensorflow::DT_FLOAT) {
          return errors::InvalidArgument(name(), ": table '", table, "' has a part of shape ",
                                         tensor.shape().DebugString(), " and type ",
                                         tensorflow::DataTypeString(tensor.dtype()),
                                         "; need [rows, ", dims[t], "] of float32");
        }
        GraphOptCudaShard shard = {};
        shard.num_rows = tensor.dim_size(0);
        shard.rows = variables->floats(s);
        TF_RETURN_IF_ERROR(optimizer_.SlotsOf(name(), variables, s, table, shard.slots));
        shards.push_back(shard);
      }
      group->AddTable(dims[t], RowType::kFloat, attrs_.partition(t), shards);
    }
    return Status();
  }

  GroupAttrs attrs_;
  OptimizerInputs optimizer_;
  GpuFaults faults_;
  ScratchUser scratch_;
};

#define GPU(op) \
  Name(op).Device(tensorflow::DEVICE_GPU).HostMemory("shapes").HostMemory("hyperparameters")
REGISTER_KERNEL_BUILDER(GPU("GroupEmbeddingApply"), GroupApplyGpuKernel);
REGISTER_KERNEL_BUILDER(GPU("ResourceGroupEmbeddingApply").HostMemory("tables").HostMemory("slots"),
                        GroupApplyGpuKernel);
#undef GPU

}  // namespace
}  // namespace graph_opt
