#ifndef GRAPH_OPT_KERNELS_LOOKUP_GROUP_GPU_H_
#define GRAPH_OPT_KERNELS_LOOKUP_GROUP_GPU_H_

#include <mutex>
#include <string>
#include <vector>

#include "cuda/group_embedding_cuda.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/tensorflow_compat.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {

// What the GPU kernels of group lookups share. Tensors are in device memory, except for `shapes`,
// row counts and hyperparameters; all work is queued on the kernel's stream.

// The cudaStream_t of a kernel call.
void* GpuStreamOf(tensorflow::OpKernelContext* ctx);

inline void* DataOf(const tensorflow::Tensor& tensor) {
  return const_cast<char*>(tensor.tensor_data().data());
}

// What a call of group_embedding_cuda.h returned to `op`, as a status.
tensorflow::Status GpuStatus(int32_t returned, const std::string& op);

// Whether the kernels of the call's device are used: the first call on a device checks them
// (self_check.h). If they are not, a HostGroup does the same work.
bool TrustsGpuKernels(tensorflow::OpKernelContext* ctx);

// The inputs of a group of which ids, positions and weights are in device memory.
class GpuGroupInputs : public GroupInputs {
 public:
  explicit GpuGroupInputs(tensorflow::OpKernelContext* ctx)
      : stream_(GpuStreamOf(ctx)), op_(ctx->op_kernel().name()) {}

  // The sizes by which a lookup's positions are flattened; empty if they are rows already.
  const std::vector<int64_t>& sizes(int lookup) const;

 protected:
  // Waits for the stream, as TensorFlow's own segment sums do.
  tensorflow::Status LastSegment(const tensorflow::Tensor& segments, int64_t* last) override;
  tensorflow::Status FlattenRows(const tensorflow::Tensor& positions,
                                 const tensorflow::Tensor& shape, int lookup) override;

 private:
  void* const stream_;
  const std::string op_;
  std::vector<std::vector<int64_t>> sizes_;
};

// A group as group_embedding_cuda.h takes it. Tables first, then their lookups.
class GpuGroup {
 public:
  void AddTable(int64_t dim, RowType type, Partition partition,
                const std::vector<GraphOptCudaShard>& shards);
  // `pooled`: the pooled rows or their gradients.
  void AddLookup(const Bags& bags, const std::vector<int64_t>& sizes, int table, const void* pooled,
                 int64_t pooled_stride);

  std::vector<GraphOptCudaShard>& shards() { return shards_; }
  // Rows of each table.
  std::vector<int64_t> TableRows() const;
  // Valid until the group changes.
  const GraphOptCudaGroup* get();

 private:
  GraphOptCudaGroup group_ = {};
  std::vector<GraphOptCudaShard> shards_;
  std::vector<GraphOptCudaTable> tables_;
  std::vector<GraphOptCudaLookup> lookups_;
};

// Device memory for the duration of a kernel call.
tensorflow::Status AllocateWorkspace(tensorflow::OpKernelContext* ctx, int64_t bytes,
                                     tensorflow::Tensor* workspace);

// Bad ids that a kernel's calls found. Nothing waits for the device: a call queues a copy of what
// it found, and a later call of the same kernel fails because of it.
class GpuFaults {
 public:
  // The device word for a call to write; fails if an earlier call has found a fault.
  tensorflow::Status Begin(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs,
                           uint64_t** word);
  // After the call is queued.
  tensorflow::Status Queue(tensorflow::OpKernelContext* ctx);
  // After the stream has been waited for: fails if this call found a fault.
  tensorflow::Status Take(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs);

 private:
  tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx);
  tensorflow::Status TakeLocked(tensorflow::OpKernelContext* ctx, const GroupAttrs& attrs,
                                const char* when);
  uint64_t* word();
  uint64_t* copied();

  std::mutex mutex_;
  bool allocated_ = false;     // guarded by mutex_, as all below
  tensorflow::Tensor word_;    // on the device
  tensorflow::Tensor copied_;  // in pinned memory of the host
};

// A kernel of a group of lookups on GPUs.
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

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_GROUP_GPU_H_
