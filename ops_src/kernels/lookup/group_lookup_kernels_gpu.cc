#include <vector>

#include "cuda/host_group.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_gpu.h"
#include "kernels/lookup/variable_tables.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupLookupGpuKernel : public GroupGpuKernel {
 public:
  using GroupGpuKernel::GroupGpuKernel;

  void Compute(OpKernelContext* ctx) override {
    VariableTables tensors;
    GpuGroupInputs inputs(ctx);
    GpuGroup group;
    std::vector<int64_t> dims;
    std::vector<DataType> dtypes;
    std::vector<Lookup> lookups;
    Tensor workspace;
    uint64_t* fault = nullptr;
    OP_REQUIRES_OK(ctx, tensors.Open(ctx, 0, attrs_.num_shards(), VariableTables::kRead));
    OP_REQUIRES_OK(ctx, AddTables(tensors, &group, &dims, &dtypes));
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, AllocatePooled(ctx, attrs_, inputs, dims, dtypes, &lookups));
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      const Lookup& lookup = lookups[i];
      OP_REQUIRES_OK(ctx, CheckPooled(lookup, dtypes));
      group.AddLookup(lookup.bags, inputs.sizes(i), lookup.table, lookup.pooled,
                      lookup.pooled_stride);
    }
    if (!TrustsGpuKernels(ctx)) return LookUpOnHost(ctx, &group);
    const int64_t bytes = graph_opt_cuda_lookup_workspace(group.get());
    OP_REQUIRES_OK(ctx, AllocateWorkspace(ctx, bytes, &workspace));
    OP_REQUIRES_OK(ctx, faults_.Begin(ctx, attrs_, &fault));
    const int32_t status =
        graph_opt_cuda_lookup(group.get(), DataOf(workspace), fault, GpuStreamOf(ctx));
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
    OP_REQUIRES_OK(ctx, faults_.Queue(ctx));
  }

 private:
  void LookUpOnHost(OpKernelContext* ctx, GpuGroup* group) {
    DeviceThreads threads(ctx);
    HostGroup host(*group->get(), GpuStreamOf(ctx), &threads);
    BagFault fault;
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), host.Lookup(&fault)));
    OP_REQUIRES_OK(ctx, FaultOf(fault, *group));
  }

  Status CheckPooled(const Lookup& lookup, const std::vector<DataType>& dtypes) const {
    const DataType dtype = dtypes[lookup.table];
    if (lookup.pooled_type != RowType::kFloat || dtype == tensorflow::DT_FLOAT) return Status();
    return errors::Unimplemented(name(), ": table '", attrs_.table_names[lookup.table], "' of ",
                                 tensorflow::DataTypeString(dtype),
                                 " is pooled into float on CPUs only: place the op on one");
  }

  Status AddTables(const VariableTables& tensors, GpuGroup* group, std::vector<int64_t>* dims,
                   std::vector<DataType>* dtypes) {
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      const Tensor& first = tensors[attrs_.first_shard(t)];
      std::vector<GraphOptCudaShard> shards;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const Tensor& tensor = tensors[s];
        if (tensor.dims() != 2 || tensor.dim_size(1) != first.dim_size(1) ||
            tensor.dtype() != first.dtype()) {
          return errors::InvalidArgument(name(), ": table '", attrs_.table_names[t],
                                         "' has a part of shape ", tensor.shape().DebugString(),
                                         " and type ", tensorflow::DataTypeString(tensor.dtype()),
                                         "; need [rows, width], all parts alike");
        }
        GraphOptCudaShard shard = {};
        shard.num_rows = tensor.dim_size(0);
        shard.rows = DataOf(tensor);
        shards.push_back(shard);
      }
      if (first.dtype() == tensorflow::DT_INT8) {
        return errors::Unimplemented(name(), ": table '", attrs_.table_names[t],
                                     "' of int8 is looked up on CPUs only: place the op on one");
      }
      RowType type;
      TF_RETURN_IF_ERROR(RowTypeOf(first.dtype(), &type));
      group->AddTable(first.dim_size(1), type, attrs_.partition(t), shards);
      dims->push_back(first.dim_size(1));
      dtypes->push_back(first.dtype());
    }
    return Status();
  }
};

#define GPU(op) Name(op).Device(tensorflow::DEVICE_GPU).HostMemory("shapes")
REGISTER_KERNEL_BUILDER(GPU("GroupEmbeddingLookup"), GroupLookupGpuKernel);
REGISTER_KERNEL_BUILDER(GPU("ResourceGroupEmbeddingLookup").HostMemory("tables"),
                        GroupLookupGpuKernel);
#undef GPU

}  // namespace
}  // namespace graph_opt
