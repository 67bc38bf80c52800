#include "kernels/refresh/refresh_counts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "kernels/found_resource.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/lib/random/random.h"

namespace graph_opt {
namespace {

using tensorflow::int64;

// The columns of what GroupEmbeddingRefreshCounts returns.
enum Count { kSteps, kStepsInMain, kIds, kIdsChanged, kBags, kBagsChanged, kNumCounts };

typedef std::array<int64_t, kNumCounts> TableCounts;

class CountsResource : public tensorflow::ResourceBase {
 public:
  typedef tensorflow::core::RefCountPtr<CountsResource> Pointer;

  void Add(const GroupAttrs& attrs, const std::vector<bool>& ahead,
           const std::vector<RefreshedLookup>& lookups) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (tables_.size() < ahead.size()) tables_.resize(ahead.size(), TableCounts{});
    for (size_t t = 0; t < ahead.size(); ++t) {
      ++tables_[t][kSteps];
      tables_[t][kStepsInMain] += !ahead[t];
    }
    for (size_t i = 0; i < lookups.size(); ++i) {
      const int table = attrs.lookup_tables[i];
      if (!ahead[table]) continue;
      TableCounts& counts = tables_[table];
      counts[kIds] += lookups[i].ids;
      counts[kIdsChanged] += lookups[i].changed_ids;
      counts[kBags] += lookups[i].bags;
      counts[kBagsChanged] += lookups[i].changed_bags;
    }
  }

  std::vector<TableCounts> tables() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return tables_;
  }

  int64 made() const { return made_; }

  std::string DebugString() const override { return "how many rows were refreshed"; }

 private:
  // Tells these counts from others of that name, such as those of another session.
  const int64 made_ =
      static_cast<int64>(tensorflow::random::New64() & std::numeric_limits<int64>::max());
  mutable std::mutex mutex_;
  std::vector<TableCounts> tables_;  // guarded by mutex_
};

Status ReadName(OpKernelConstruction* ctx, std::string* name) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("refresh_counts", name));
  if (!name->empty()) *name = "graph_opt_refresh_counts/" + *name;
  return Status();
}

class GroupRefreshCountsKernel : public OpKernel {
 public:
  explicit GroupRefreshCountsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadName(ctx, &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tables", &tables_));
  }

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    CountsResource::Pointer found;
    OP_REQUIRES_OK(ctx, FindOrMake(ctx, name_, &found));
    const int64 num_tables = static_cast<int64>(tables_.size());
    Tensor* counts = nullptr;
    Tensor* made = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({num_tables, kNumCounts}), &counts));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({}), &made));
    auto rows = counts->matrix<int64>();
    rows.setZero();
    const std::vector<TableCounts> tables = found->tables();
    const size_t num_counted = std::min(tables.size(), tables_.size());
    for (size_t t = 0; t < num_counted; ++t) {
      for (int i = 0; i < kNumCounts; ++i) rows(t, i) = tables[t][i];
    }
    made->scalar<int64>()() = found->made();
  }

 private:
  std::string name_;
  std::vector<std::string> tables_;
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingRefreshCounts").Device(tensorflow::DEVICE_CPU),
                        GroupRefreshCountsKernel);

}  // namespace

Status RefreshCounts::Read(OpKernelConstruction* ctx) { return ReadName(ctx, &name_); }

Status RefreshCounts::Tell(OpKernelContext* ctx, const GroupAttrs& attrs,
                           const std::vector<bool>& ahead,
                           const std::vector<RefreshedLookup>& lookups) const {
  Tensor* of_step = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(ctx->num_outputs() - 1, TensorShape({2}), &of_step));
  auto counts = of_step->flat<int64>();
  counts.setZero();
  for (size_t i = 0; i < lookups.size(); ++i) {
    if (!ahead[attrs.lookup_tables[i]]) continue;
    counts(0) += lookups[i].ids;
    counts(1) += lookups[i].changed_ids;
  }
  if (name_.empty()) return Status();
  CountsResource::Pointer found;
  TF_RETURN_IF_ERROR(FindOrMake(ctx, name_, &found));
  found->Add(attrs, ahead, lookups);
  return Status();
}

}  // namespace graph_opt
