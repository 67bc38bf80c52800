// Defines the functions of group_embedding_cuda.h over `GRAPH_OPT_DEVICE`, a Device (group_calls.h)
// made from a stream. Included once by what defines it: by group_embedding_cuda.cu for the GPU, and
// by a test that runs the kernels on the host.
#include "cuda/group_calls.h"

int64_t graph_opt_cuda_lookup_workspace(const GraphOptCudaGroup* group) {
  return graph_opt::gpu::LookupWorkspace(*group);
}

int64_t graph_opt_cuda_sort_workspace(const GraphOptCudaGroup* group) {
  return graph_opt::gpu::SortWorkspaceBytes(GRAPH_OPT_DEVICE(nullptr), *group);
}

int32_t graph_opt_cuda_lookup(const GraphOptCudaGroup* group, void* workspace, uint64_t* fault,
                              void* stream) {
  return graph_opt::gpu::PoolGroup(GRAPH_OPT_DEVICE(stream), *group, workspace, fault);
}

int32_t graph_opt_cuda_sort(const GraphOptCudaGroup* group, void* workspace, uint64_t* fault,
                            void* stream) {
  return graph_opt::gpu::SortGroup(GRAPH_OPT_DEVICE(stream), *group, workspace, fault);
}

int32_t graph_opt_cuda_count_rows(const GraphOptCudaGroup* group, void* workspace, int64_t* counts,
                                  void* stream) {
  return graph_opt::gpu::CountRows(GRAPH_OPT_DEVICE(stream), *group, workspace, counts);
}

int32_t graph_opt_cuda_sum(const GraphOptCudaGroup* group, void* workspace, void* stream) {
  return graph_opt::gpu::ReduceGroup(GRAPH_OPT_DEVICE(stream), *group, graph_opt::gpu::WriteSums(),
                                     workspace);
}

int32_t graph_opt_cuda_apply(const GraphOptCudaGroup* group, const GraphOptOptimizer* optimizer,
                             void* workspace, void* stream) {
  return graph_opt::gpu::ApplyGroup(GRAPH_OPT_DEVICE(stream), *group, *optimizer, workspace);
}

int32_t graph_opt_cuda_clear_fault(uint64_t* fault, void* stream) {
  return GRAPH_OPT_DEVICE(stream).ClearFault(fault);
}

int32_t graph_opt_cuda_read_fault(const uint64_t* fault, uint64_t* copied, void* stream) {
  return GRAPH_OPT_DEVICE(stream).ReadFault(fault, copied);
}

int32_t graph_opt_cuda_download(const void* from, int64_t bytes, void* to, void* stream) {
  return GRAPH_OPT_DEVICE(stream).Download(from, bytes, to);
}

int32_t graph_opt_cuda_download_rows(const void* from, int64_t stride, int64_t bytes, int64_t count,
                                     void* to, void* stream) {
  if (bytes == 0 || count == 0) return 0;
  return GRAPH_OPT_DEVICE(stream).CopyRows(from, stride, to, bytes, bytes, count);
}

int32_t graph_opt_cuda_upload_rows(const void* from, int64_t bytes, int64_t count, void* to,
                                   int64_t stride, void* stream) {
  if (bytes == 0 || count == 0) return 0;
  return GRAPH_OPT_DEVICE(stream).CopyRows(from, bytes, to, stride, bytes, count);
}

const char* graph_opt_cuda_message(int32_t status) {
  switch (status) {
    case 0:
      return "done";
    case GRAPH_OPT_CUDA_TOO_MANY:
      return "too many ids, bags or lookups for one step";
    case GRAPH_OPT_CUDA_BAD_GROUP:
      return "a group that contradicts itself";
    case GRAPH_OPT_CUDA_NO_DEVICE:
      return "no GPU that can be used, or no driver for it";
  }
  return GRAPH_OPT_DEVICE::Message(status);
}
