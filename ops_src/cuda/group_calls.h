// The calls of group_embedding_cuda.h over a Device, which the GPU is one of:
//
//   int32_t Upload(const std::vector<char>& from, char* to)
//   int32_t Download(const void* from, int64_t bytes, void* to)         waits
//   int32_t CopyRows(const void* from, int64_t from_stride, void* to, int64_t to_stride,
//                    int64_t bytes, int64_t count)                      to or from the host; waits
//   int32_t ClearFault(uint64_t* fault)
//   int32_t ReadFault(const uint64_t* fault, uint64_t* copied)          to pinned memory
//   int32_t Launch(const Kernel& kernel, int64_t blocks)                nothing for no blocks
//   int64_t TemporaryBytes(int64_t count, int key_bits)                 for the two below
//   int32_t Sort(const SortMemory& memory, int key_bits, void* temporary, int64_t bytes)
//   int32_t AddUp(const SortMemory& memory, void* temporary, int64_t bytes)  marks to runs
//
// Sizes of memory do not depend on the pointers of a group.
#ifndef GRAPH_OPT_CUDA_GROUP_CALLS_H_
#define GRAPH_OPT_CUDA_GROUP_CALLS_H_

#include <vector>

#include "cuda/group_on_device.h"
#include "cuda/pool_bags.h"
#include "cuda/reduce_runs.h"
#include "cuda/sort_ids.h"

namespace graph_opt {
namespace gpu {

#define GRAPH_OPT_RETURN_IF_FAILED(call) \
  do {                                   \
    const int32_t failed = (call);       \
    if (failed != 0) return failed;      \
  } while (false)

// Hands out aligned pieces of the workspace; without a workspace, it only counts.
class Pieces {
 public:
  explicit Pieces(void* workspace) : workspace_(static_cast<char*>(workspace)) {}

  template <typename T>
  T* Take(int64_t count) {
    char* const piece = workspace_ == nullptr ? nullptr : workspace_ + bytes_;
    bytes_ += AlignedBytes(count * static_cast<int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(piece);
  }

  int64_t bytes() const { return bytes_; }

 private:
  char* workspace_;
  int64_t bytes_ = 0;
};

// Bits that hold all numbers up to `most`.
inline int BitsUpTo(int64_t most) {
  int bits = 1;
  while (bits < 63 && most >> bits != 0) ++bits;
  return bits;
}

inline int64_t BlocksOfThreads(int64_t count) { return (count + kThreads - 1) / kThreads; }

// Where the parts of a backward pass are in its workspace.
struct SortWorkspace {
  char* group;
  SortMemory memory;
  int key_bits;
  char* temporary;
  int64_t temporary_bytes;
  int64_t bytes;
};

template <typename Device>
SortWorkspace LayOut(const Device& device, const GroupSizes& sizes, int32_t num_shards,
                     void* workspace) {
  SortWorkspace all = {};
  Pieces pieces(workspace);
  all.group = pieces.Take<char>(sizes.bytes);
  SortMemory& memory = all.memory;
  memory.num_slots = sizes.slots;
  memory.num_keys = sizes.keys;
  memory.bags = pieces.Take<BagGradient>(sizes.bags);
  memory.counts = pieces.Take<uint32_t>(sizes.bags);
  memory.keys = pieces.Take<uint64_t>(sizes.slots);
  memory.packed = pieces.Take<uint64_t>(sizes.slots);
  memory.sorted_keys = pieces.Take<uint64_t>(sizes.slots);
  memory.sorted_packed = pieces.Take<uint64_t>(sizes.slots);
  memory.marks = pieces.Take<uint32_t>(sizes.slots);
  memory.runs = pieces.Take<uint32_t>(sizes.slots);
  memory.run_begins = pieces.Take<uint32_t>(sizes.slots + 1);
  memory.first_runs = pieces.Take<int64_t>(num_shards + 1);
  all.key_bits = BitsUpTo(sizes.keys);
  all.temporary_bytes = sizes.slots == 0 ? 0 : device.TemporaryBytes(sizes.slots, all.key_bits);
  all.temporary = pieces.Take<char>(all.temporary_bytes);
  all.bytes = all.temporary_bytes < 0 ? all.temporary_bytes : pieces.bytes();
  return all;
}

inline int64_t LookupWorkspace(const GraphOptCudaGroup& group) {
  GroupPlan plan;
  const int32_t status = plan.Read(group);
  return status != 0 ? status : plan.sizes().bytes;
}

template <typename Device>
int64_t SortWorkspaceBytes(const Device& device, const GraphOptCudaGroup& group) {
  GroupPlan plan;
  const int32_t status = plan.Read(group);
  return status != 0 ? status : LayOut(device, plan.sizes(), group.num_shards, nullptr).bytes;
}

template <typename Device>
int32_t PoolGroup(const Device& device, const GraphOptCudaGroup& group, void* workspace,
                  uint64_t* fault) {
  GroupPlan plan;
  GRAPH_OPT_RETURN_IF_FAILED(plan.Read(group));
  PoolBags kernel = {{}, fault};
  char* const place = static_cast<char*>(workspace);
  GRAPH_OPT_RETURN_IF_FAILED(device.Upload(plan.Image(place, &kernel.group), place));
  return device.Launch(kernel, plan.sizes().pool_blocks);
}

template <typename Device>
int32_t SortGroup(const Device& device, const GraphOptCudaGroup& group, void* workspace,
                  uint64_t* fault) {
  GroupPlan plan;
  GRAPH_OPT_RETURN_IF_FAILED(plan.Read(group));
  const GroupSizes& sizes = plan.sizes();
  const SortWorkspace all = LayOut(device, sizes, group.num_shards, workspace);
  if (all.bytes < 0) return static_cast<int32_t>(all.bytes);
  const SortMemory& memory = all.memory;
  GroupOnDevice on_device;
  GRAPH_OPT_RETURN_IF_FAILED(device.Upload(plan.Image(all.group, &on_device), all.group));
  GRAPH_OPT_RETURN_IF_FAILED(device.Launch(CountBags{on_device, memory}, sizes.bag_blocks));
  if (sizes.slots > 0) {
    const int64_t blocks = BlocksOfThreads(sizes.slots);
    GRAPH_OPT_RETURN_IF_FAILED(
        device.Launch(WriteKeys{on_device, memory, fault}, sizes.slot_blocks));
    GRAPH_OPT_RETURN_IF_FAILED(
        device.Sort(memory, all.key_bits, all.temporary, all.temporary_bytes));
    GRAPH_OPT_RETURN_IF_FAILED(device.Launch(MarkRuns{memory}, blocks));
    GRAPH_OPT_RETURN_IF_FAILED(device.AddUp(memory, all.temporary, all.temporary_bytes));
    GRAPH_OPT_RETURN_IF_FAILED(device.Launch(StartRuns{memory}, blocks));
  }
  return device.Launch(FindShards{on_device, memory}, BlocksOfThreads(group.num_shards + 1));
}

template <typename Device>
int32_t CountRows(const Device& device, const GraphOptCudaGroup& group, void* workspace,
                  int64_t* counts) {
  GroupPlan plan;
  GRAPH_OPT_RETURN_IF_FAILED(plan.Read(group));
  const SortWorkspace all = LayOut(device, plan.sizes(), group.num_shards, workspace);
  if (all.bytes < 0) return static_cast<int32_t>(all.bytes);
  std::vector<int64_t> first_runs(static_cast<size_t>(group.num_shards) + 1);
  GRAPH_OPT_RETURN_IF_FAILED(device.Download(
      all.memory.first_runs, static_cast<int64_t>(first_runs.size() * 8), first_runs.data()));
  for (int32_t s = 0; s < group.num_shards; ++s) counts[s] = first_runs[s + 1] - first_runs[s];
  return 0;
}

template <typename Device, typename Take>
int32_t ReduceGroup(const Device& device, const GraphOptCudaGroup& group, const Take& take,
                    void* workspace) {
  GroupPlan plan;
  GRAPH_OPT_RETURN_IF_FAILED(plan.Read(group));
  const SortWorkspace all = LayOut(device, plan.sizes(), group.num_shards, workspace);
  if (all.bytes < 0) return static_cast<int32_t>(all.bytes);
  ReduceRuns<Take> kernel = {{}, all.memory, take};
  // Rows, slots and sums may be others than when the ids were sorted.
  GRAPH_OPT_RETURN_IF_FAILED(device.Upload(plan.Image(all.group, &kernel.group), all.group));
  return device.Launch(kernel, plan.sizes().row_blocks);
}

template <typename Device>
struct ReduceBySpec {
  const Device& device;
  const GraphOptCudaGroup& group;
  void* workspace;
  int32_t* status;

  template <typename Spec>
  void operator()(const Spec& spec) const {
    Reduce(spec, optimizers::RowSum<Spec::kSumsRow>());
  }

 private:
  template <typename Spec>
  void Reduce(const Spec& spec, optimizers::RowSum<false>) const {
    *status = ReduceGroup(device, group, UpdateBySpec<Spec>{spec}, workspace);
  }
  template <typename Spec>
  void Reduce(const Spec&, optimizers::RowSum<true>) const {}  // not on GPUs
};

template <typename Device>
int32_t ApplyGroup(const Device& device, const GraphOptCudaGroup& group,
                   const GraphOptOptimizer& optimizer, void* workspace) {
  const int num_slots = graph_opt_num_slots(&optimizer);
  if (num_slots < 0) return GRAPH_OPT_CUDA_BAD_GROUP;
  for (int32_t t = 0; t < group.num_tables; ++t) {
    if (group.tables[t].type != GRAPH_OPT_CUDA_FLOAT) return GRAPH_OPT_CUDA_BAD_GROUP;
  }
  for (int32_t s = 0; s < group.num_shards; ++s) {
    const GraphOptCudaShard& shard = group.shards[s];
    if (shard.num_rows == 0) continue;
    if (shard.rows == nullptr) return GRAPH_OPT_CUDA_BAD_GROUP;
    for (int i = 0; i < num_slots; ++i) {
      if (shard.slots[i] == nullptr) return GRAPH_OPT_CUDA_BAD_GROUP;
    }
  }
  int32_t status = GRAPH_OPT_CUDA_BAD_GROUP;
  optimizers::WithSpec(optimizer, ReduceBySpec<Device>{device, group, workspace, &status});
  return status;
}

#undef GRAPH_OPT_RETURN_IF_FAILED

}  // namespace gpu
}  // namespace graph_opt

#endif  // GRAPH_OPT_CUDA_GROUP_CALLS_H_
