#include "kernels/lookup/group_gpu.h"

#include <algorithm>
#include <cstdlib>

#include "cuda/device_status.h"
#include "cuda/self_check.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/stream_executor.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// The C structures number their kinds as the functors do.
static_assert(static_cast<int>(RowType::kFloat) == GRAPH_OPT_CUDA_FLOAT, "");
static_assert(static_cast<int>(RowType::kHalf) == GRAPH_OPT_CUDA_HALF, "");
static_assert(static_cast<int>(RowType::kBfloat16) == GRAPH_OPT_CUDA_BFLOAT16, "");
static_assert(Bags::kDense == static_cast<int>(GRAPH_OPT_CUDA_DENSE), "");
static_assert(Bags::kRagged == static_cast<int>(GRAPH_OPT_CUDA_RAGGED), "");
static_assert(Bags::kSparse == static_cast<int>(GRAPH_OPT_CUDA_SPARSE), "");
static_assert(static_cast<int>(Combiner::kSum) == GRAPH_OPT_CUDA_SUM, "");
static_assert(static_cast<int>(Combiner::kMean) == GRAPH_OPT_CUDA_MEAN, "");
static_assert(static_cast<int>(Combiner::kSqrtN) == GRAPH_OPT_CUDA_SQRTN, "");
static_assert(static_cast<int>(Combiner::kMeanOrNan) == GRAPH_OPT_CUDA_MEAN_OR_NAN, "");
static_assert(static_cast<int>(Combiner::kSqrtNOrNan) == GRAPH_OPT_CUDA_SQRTN_OR_NAN, "");
static_assert(static_cast<int>(Partition::kMod) == GRAPH_OPT_CUDA_MOD, "");
static_assert(static_cast<int>(Partition::kDiv) == GRAPH_OPT_CUDA_DIV, "");

Status FaultOf(uint64_t fault, const GroupAttrs& attrs, const std::string& op, const char* when) {
  const int64_t lookup = graph_opt_cuda_fault_lookup(fault);
  const std::string& table = attrs.table_names[attrs.lookup_tables[lookup]];
  const int64_t bag = graph_opt_cuda_fault_bag(fault);
  if (graph_opt_cuda_fault_kind(fault) == GRAPH_OPT_CUDA_ID_OUT_OF_RANGE) {
    return errors::InvalidArgument(op, ": ", when, "an id in row ", bag, " of lookup ", lookup,
                                   " is not among the rows of table '", table, "'");
  }
  return errors::InvalidArgument(op, ": ", when, "ids of lookup ", lookup, " in table '", table,
                                 "' are not in the order of their rows, or outside the rows, at "
                                 "row ",
                                 bag);
}

}  // namespace

void* GpuStreamOf(OpKernelContext* ctx) {
  auto* const stream = ctx->op_device_context()->stream();
#if GRAPH_OPT_TENSORFLOW >= 2015
  return stream->platform_specific_handle().stream;
#else
  return *stream->implementation()->GpuStreamMemberHack();
#endif
}

Status GpuStatus(int32_t returned, const std::string& op) {
  return StatusOfOp(op, DeviceStatus(returned));
}

bool TrustsGpuKernels(OpKernelContext* ctx) {
  static TrustedDevices* const devices = new TrustedDevices(std::getenv("GRAPH_OPT_GPU_KERNELS"));
  return devices->Trusts(ctx->device()->name(), [ctx] {
    int64_t bytes = 0;
    absl::Status status = SelfCheckBytes(&bytes);
    if (!status.ok()) return status;
    Tensor memory;
    status = FromTensorFlow(AllocateWorkspace(ctx, bytes, &memory));
    if (!status.ok()) return status;
    return SelfCheck(const_cast<char*>(memory.tensor_data().data()), GpuStreamOf(ctx));
  });
}

const std::vector<int64_t>& GpuGroupInputs::sizes(int lookup) const {
  static const std::vector<int64_t>* const none = new std::vector<int64_t>;
  return lookup < static_cast<int>(sizes_.size()) ? sizes_[lookup] : *none;
}

Status GpuGroupInputs::LastSegment(const Tensor& segments, int64_t* last) {
  const char* const data = segments.tensor_data().data();
  const int64_t at = (segments.NumElements() - 1) * static_cast<int64_t>(sizeof(*last));
  return GpuStatus(graph_opt_cuda_download(data + at, sizeof(*last), last, stream_), op_);
}

Status GpuGroupInputs::FlattenRows(const Tensor&, const Tensor& shape, int lookup) {
  const int64_t count = shape.NumElements() - 1;
  if (count > GRAPH_OPT_CUDA_MOST_SIZES) {
    return errors::InvalidArgument("ids of lookup ", lookup, " have rank ", count + 1,
                                   "; need at most ", GRAPH_OPT_CUDA_MOST_SIZES + 1, " on a GPU");
  }
  if (lookup >= static_cast<int>(sizes_.size())) sizes_.resize(lookup + 1);
  const auto sizes = shape.flat<tensorflow::int64>();
  sizes_[lookup].clear();
  for (int64_t d = 0; d < count; ++d) sizes_[lookup].push_back(sizes(d));
  return Status();
}

void GpuGroup::AddTable(int64_t dim, RowType type, Partition partition,
                        const std::vector<GraphOptCudaShard>& shards) {
  GraphOptCudaTable table = {};
  table.first_shard = static_cast<int32_t>(shards_.size());
  table.num_shards = static_cast<int32_t>(shards.size());
  table.dim = static_cast<int32_t>(dim);
  table.type = static_cast<int32_t>(type);
  table.partition = static_cast<int32_t>(partition);
  tables_.push_back(table);
  shards_.insert(shards_.end(), shards.begin(), shards.end());
}

std::vector<int64_t> GpuGroup::TableRows() const {
  std::vector<int64_t> rows(tables_.size(), 0);
  for (size_t t = 0; t < tables_.size(); ++t) {
    for (int32_t s = 0; s < tables_[t].num_shards; ++s) {
      rows[t] += shards_[tables_[t].first_shard + s].num_rows;
    }
  }
  return rows;
}

void GpuGroup::AddLookup(const Bags& bags, const std::vector<int64_t>& sizes, int table,
                         const void* pooled, int64_t pooled_stride) {
  GraphOptCudaLookup lookup = {};
  lookup.ids = bags.ids;
  lookup.positions = bags.positions;
  lookup.weights = bags.weights;
  lookup.pooled = const_cast<void*>(pooled);
  lookup.pooled_stride = pooled_stride;
  lookup.num_ids = bags.num_ids;
  lookup.num_bags = bags.num_bags;
  lookup.stride = bags.stride;
  lookup.width = bags.width;
  lookup.default_id = bags.default_id;
  lookup.filled_id = bags.filled_id;
  std::copy(sizes.begin(), sizes.end(), lookup.sizes);
  lookup.num_sizes = std::max(static_cast<int32_t>(sizes.size()), 1);
  lookup.table = table;
  lookup.layout = static_cast<int32_t>(bags.layout);
  lookup.combiner = static_cast<int32_t>(bags.combiner);
  lookup.wide_ids = bags.wide_ids;
  lookup.safe = bags.safe;
  lookups_.push_back(lookup);
}

const GraphOptCudaGroup* GpuGroup::get() {
  group_.shards = shards_.data();
  group_.tables = tables_.data();
  group_.lookups = lookups_.data();
  group_.num_shards = static_cast<int32_t>(shards_.size());
  group_.num_tables = static_cast<int32_t>(tables_.size());
  group_.num_lookups = static_cast<int32_t>(lookups_.size());
  return &group_;
}

Status AllocateWorkspace(OpKernelContext* ctx, int64_t bytes, Tensor* workspace) {
  if (bytes < 0) return GpuStatus(static_cast<int32_t>(bytes), ctx->op_kernel().name());
  return ctx->allocate_temp(tensorflow::DT_UINT8, TensorShape({std::max<int64_t>(bytes, 1)}),
                            workspace);
}

Status GpuFaults::Begin(OpKernelContext* ctx, const GroupAttrs& attrs, uint64_t** word_of_call) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!allocated_) TF_RETURN_IF_ERROR(Allocate(ctx));
  TF_RETURN_IF_ERROR(TakeLocked(ctx, attrs, "in an earlier step "));
  *word_of_call = word();
  return Status();
}

Status GpuFaults::Queue(OpKernelContext* ctx) {
  std::lock_guard<std::mutex> lock(mutex_);
  return GpuStatus(graph_opt_cuda_read_fault(word(), copied(), GpuStreamOf(ctx)),
                   ctx->op_kernel().name());
}

Status GpuFaults::Take(OpKernelContext* ctx, const GroupAttrs& attrs) {
  std::lock_guard<std::mutex> lock(mutex_);
  return TakeLocked(ctx, attrs, "");
}

Status GpuFaults::TakeLocked(OpKernelContext* ctx, const GroupAttrs& attrs, const char* when) {
  const uint64_t fault = *static_cast<volatile uint64_t*>(copied());
  if (graph_opt_cuda_fault_kind(fault) == 0) return Status();
  const std::string& op = ctx->op_kernel().name();
  TF_RETURN_IF_ERROR(GpuStatus(graph_opt_cuda_clear_fault(word(), GpuStreamOf(ctx)), op));
  *static_cast<volatile uint64_t*>(copied()) = GRAPH_OPT_CUDA_NO_FAULT;
  return FaultOf(fault, attrs, op, when);
}

Status GpuFaults::Allocate(OpKernelContext* ctx) {
  const TensorShape bytes({static_cast<int64_t>(sizeof(uint64_t))});
  tensorflow::AllocatorAttributes pinned;
  pinned.set_on_host(true);
  pinned.set_gpu_compatible(true);
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8, bytes, &word_));
  TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8, bytes, &copied_, pinned));
  *copied() = GRAPH_OPT_CUDA_NO_FAULT;
  TF_RETURN_IF_ERROR(
      GpuStatus(graph_opt_cuda_clear_fault(word(), GpuStreamOf(ctx)), ctx->op_kernel().name()));
  allocated_ = true;
  return Status();
}

uint64_t* GpuFaults::word() {
  return reinterpret_cast<uint64_t*>(const_cast<char*>(word_.tensor_data().data()));
}

uint64_t* GpuFaults::copied() {
  return reinterpret_cast<uint64_t*>(const_cast<char*>(copied_.tensor_data().data()));
}

}  // namespace graph_opt
