#include "kernels/refresh/row_logs.h"

#include <algorithm>
#include <utility>

#include "kernels/found_resource.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

Status RowLogs::Read(OpKernelConstruction* ctx) {
  std::vector<std::string> entries;
  TF_RETURN_IF_ERROR(ctx->GetAttr("row_logs", &entries));
  for (const std::string& entry : entries) places_.emplace_back(entry, true);
  return Status();
}

Status RowLogs::Find(OpKernelContext* ctx, int i, Pointer* log) const {
  const StatePlace& place = places_[i];
  if (place.name.empty()) return Status();
  return FindOrMake(ctx, place.ContainerOf(ctx), place.name, log);
}

Status UpdateLogs::Read(OpKernelConstruction* ctx, int num_shards) {
  tensorflow::int64 kept;
  TF_RETURN_IF_ERROR(logs_.Read(ctx));
  TF_RETURN_IF_ERROR(ctx->GetAttr("row_log_length", &kept));
  kept_ = kept;
  if (logs_.empty() || (logs_.size() == num_shards && kept_ > 0)) return Status();
  return errors::InvalidArgument(
      ctx->def().name(), ": row_logs has ", logs_.size(), " entries and row_log_length is ", kept_,
      "; need an entry for each of the ", num_shards, " shards and a length of at least 1");
}

Status UpdateLogs::Append(OpKernelContext* ctx, const std::vector<int>& first_shards,
                          const std::vector<GradientTable>& tables,
                          const std::vector<PooledGradient>& lookups, Parallel* parallel) const {
  if (logs_.empty()) return Status();
  std::vector<RowLogs::Pointer> logs(first_shards.back());
  for (int s = 0; s < first_shards.back(); ++s) TF_RETURN_IF_ERROR(logs_.Find(ctx, s, &logs[s]));
  parallel->Run(static_cast<int64_t>(tables.size()), [&](int64_t t) {
    const int first = first_shards[t];
    const auto begin = logs.begin() + first;
    const auto end = logs.begin() + first_shards[t + 1];
    const bool is_awaited = std::any_of(begin, end, [&](const RowLogs::Pointer& log) {
      return log != nullptr && log->log()->IsAwaited(kept_);
    });
    if (!is_awaited) {
      for (auto log = begin; log != end; ++log) {
        if (*log != nullptr) (*log)->log()->AppendAll();
      }
      return;
    }
    std::vector<const Bags*> bags;
    for (const PooledGradient& lookup : lookups) {
      if (lookup.table == t) bags.push_back(&lookup.bags);
    }
    std::vector<RowSet> rows = RowsOf(tables[t].shards, bags);
    for (size_t s = 0; s < rows.size(); ++s) {
      if (logs[first + s] != nullptr) logs[first + s]->log()->Append(std::move(rows[s]), kept_);
    }
  });
  return Status();
}

}  // namespace graph_opt
