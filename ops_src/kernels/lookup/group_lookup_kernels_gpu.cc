#include <string>
#include <vector>

#include "cuda/host_group.h"
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

void* Data(const Tensor& tensor) { return const_cast<char*>(tensor.tensor_data().data()); }

class GroupGpuKernel : public OpKernel {
 public:
  explicit GroupGpuKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
  }

 protected:
  Status FaultOf(const BagFault& fault, const GpuGroup& group) const {
    return FaultStatus(fault, attrs_, group.TableRows(), name());
  }

  GroupAttrs attrs_;
  GpuFaults faults_;

 private:
  ScratchUser scratch_;
};

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
      group.AddLookup(lookup.bags, inputs.sizes(i), lookup.table, lookup.pooled,
                      lookup.pooled_stride);
    }
    if (!TrustsGpuKernels(ctx)) return LookUpOnHost(ctx, &group);
    const int64_t bytes = graph_opt_cuda_lookup_workspace(group.get());
    OP_REQUIRES_OK(ctx, AllocateWorkspace(ctx, bytes, &workspace));
    OP_REQUIRES_OK(ctx, faults_.Begin(ctx, attrs_, &fault));
    const int32_t status =
        graph_opt_cuda_lookup(group.get(), Data(workspace), fault, GpuStreamOf(ctx));
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
        shard.rows = Data(tensor);
        shards.push_back(shard);
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
    int32_t status = graph_opt_cuda_sort(group.get(), Data(workspace), fault, stream);
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
    OP_REQUIRES_OK(ctx, faults_.Queue(ctx));
    std::vector<int64_t> counts(attrs_.num_shards());
    status = graph_opt_cuda_count_rows(group.get(), Data(workspace), counts.data(), stream);
    OP_REQUIRES_OK(ctx, GpuStatus(status, name()));
    OP_REQUIRES_OK(ctx, faults_.Take(ctx, attrs_));
    OP_REQUIRES_OK(ctx, Allocate(ctx, dims, counts, &group));
    status = graph_opt_cuda_sum(group.get(), Data(workspace), stream);
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
        group->shards()[s].indices = static_cast<int64_t*>(Data(*index));
        group->shards()[s].sums = Data(*value);
      }
    }
    return Status();
  }
};

#define GPU(op) Name(op).Device(tensorflow::DEVICE_GPU).HostMemory("shapes")
REGISTER_KERNEL_BUILDER(GPU("GroupEmbeddingLookup"), GroupLookupGpuKernel);
REGISTER_KERNEL_BUILDER(GPU("ResourceGroupEmbeddingLookup").HostMemory("tables"),
                        GroupLookupGpuKernel);
REGISTER_KERNEL_BUILDER(GPU("GroupEmbeddingGrad").HostMemory("table_rows"), GroupGradGpuKernel);
#undef GPU

}  // namespace
}  // namespace graph_opt
