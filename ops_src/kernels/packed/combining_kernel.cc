#include "kernels/packed/combining_kernel.h"

#include <algorithm>
#include <numeric>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/tensorflow_compat.h"
#include "lookup/group_lookup.h"
#include "lookup/refresh_bags.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {

namespace errors = tensorflow::errors;

namespace {

// If the server pooled, each bag has one id, the number of its row.
void NumberBags(const std::vector<Table>& tables, const std::vector<bool>& pooled,
                std::vector<Lookup>* lookups, std::vector<int32_t>* numbers) {
  int64_t most_rows = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (pooled[t]) most_rows = std::max(most_rows, tables[t].shards.num_rows());
  }
  numbers->resize(most_rows);
  std::iota(numbers->begin(), numbers->end(), 0);
  std::vector<int64_t> next(tables.size(), 0);
  for (Lookup& lookup : *lookups) {
    if (!pooled[lookup.table]) continue;
    Bags bags;
    bags.layout = Bags::kDense;
    bags.combiner = Combiner::kSum;
    bags.wide_ids = false;
    bags.ids = numbers->data() + next[lookup.table];
    bags.num_ids = bags.num_bags = lookup.bags.num_bags;
    next[lookup.table] += bags.num_bags;
    lookup.bags = bags;
  }
}

}  // namespace

CombiningKernel::CombiningKernel(OpKernelConstruction* ctx, const char* server)
    : PlacedGroupKernel(ctx), server_(server) {
  OP_REQUIRES_OK(ctx, ReadWidths(ctx, &widths_));
  OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
  OP_REQUIRES_OK(ctx, RowTypeOf(dtype_, &type_));
}

Status CombiningKernel::ReadShards(OpKernelContext* ctx, const GroupInputs& inputs,
                                   PackedShards* shards) const {
  const Tensor* counts = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("counts", &counts));
  if (counts->NumElements() != attrs_.num_shards()) {
    return errors::InvalidArgument(name(), ": counts has ", counts->NumElements(),
                                   " entries, need one for each of the ", attrs_.num_shards(),
                                   " shards");
  }
  shards->first_shards = attrs_.first_shards;
  shards->widths = widths_;
  shards->servers = servers();
  shards->server = server_;
  shards->counts = reinterpret_cast<const int64_t*>(counts->flat<tensorflow::int64>().data());
  for (int t = 0; t < attrs_.num_tables(); ++t) {
    int64_t num_bags = 0;
    for (int i : lookups_of(t)) num_bags += inputs.bags(i).num_bags;
    shards->num_bags.push_back(num_bags);
  }
  return Status();
}

Status CombiningKernel::NumberRows(OpKernelContext* ctx, const GroupInputs& inputs,
                                   const PackedShards& shards, std::vector<Bags>* bags) const {
  const Tensor* inverse = nullptr;
  TF_RETURN_IF_ERROR(ctx->input("inverse", &inverse));
  int64_t num_ids = 0;
  int64_t num_lookups = 0;
  for (int i = 0; i < attrs_.num_lookups(); ++i) {
    bags->push_back(inputs.bags(i));
    if (IsPooled(shards, attrs_.lookup_tables[i])) continue;
    num_ids += inputs.bags(i).num_ids;
    ++num_lookups;
  }
  if (inverse->NumElements() != num_ids + num_lookups) {
    return errors::InvalidArgument(name(), ": inverse has ", inverse->NumElements(),
                                   " entries, need ", num_ids, " for the ids and ", num_lookups,
                                   " for the lookups");
  }
  const tensorflow::int32* numbers = inverse->flat<tensorflow::int32>().data();
  const tensorflow::int32* defaults = numbers + num_ids;
  for (int i = 0; i < attrs_.num_lookups(); ++i) {
    if (IsPooled(shards, attrs_.lookup_tables[i])) continue;
    Bags& numbered = (*bags)[i];
    numbered.ids = numbers;
    numbered.wide_ids = false;
    numbered.default_id = numbered.default_id < 0 ? -1 : *defaults;
    numbered.filled_id = numbered.filled_id < 0 ? -1 : *defaults;
    numbers += numbered.num_ids;
    ++defaults;
  }
  return Status();
}

Status CombiningKernel::Combine(OpKernelContext* ctx, const GroupInputs& inputs,
                                const PackedShards& shards, const std::vector<SentRows>& sent,
                                int first_read) const {
  std::vector<Table> tables;
  std::vector<Lookup> lookups;
  std::vector<bool> pooled;
  std::vector<int32_t> numbers_of_bags;
  TF_RETURN_IF_ERROR(StatusOfOp(name(), PackedTables(shards, sent, type_, &tables)));
  TF_RETURN_IF_ERROR(NumberedLookups(ctx, inputs, shards, first_read, &lookups));
  for (int t = 0; t < attrs_.num_tables(); ++t) pooled.push_back(IsPooled(shards, t));
  NumberBags(tables, pooled, &lookups, &numbers_of_bags);
  DeviceThreads threads(ctx, BytesOf(RowsOf(tables, lookups)));
  return FaultOf(GroupLookup(tables, lookups, BestRowKernels(), &threads), tables);
}

Status CombiningKernel::Refresh(OpKernelContext* ctx, const GroupInputs& inputs,
                                const PackedShards& shards, const std::vector<SentRows>& sent,
                                const RefreshCounts& counts,
                                const std::function<void(NewRows*)>& write) const {
  int first_read, end_read;
  std::vector<Table> tables;
  std::vector<Lookup> lookups;
  TF_RETURN_IF_ERROR(InputRange("read", &first_read, &end_read));
  TF_RETURN_IF_ERROR(StatusOfOp(name(), PackedTables(shards, sent, type_, &tables)));
  NewRows fresh(shards, tables, sent);
  write(&fresh);
  TF_RETURN_IF_ERROR(NumberedLookups(ctx, inputs, shards, first_read, &lookups));
  DeviceThreads threads(ctx, BytesOf(RowsOf(tables, lookups)));
  std::vector<RefreshedLookup> refreshed;
  TF_RETURN_IF_ERROR(
      FaultOf(RefreshBags(tables, fresh.changed(), lookups, BestRowKernels(), &threads, &refreshed),
              tables));
  return counts.Tell(ctx, attrs_, std::vector<bool>(attrs_.num_tables(), true), refreshed);
}

Status CombiningKernel::NumberedLookups(OpKernelContext* ctx, const GroupInputs& inputs,
                                        const PackedShards& shards, int first_read,
                                        std::vector<Lookup>* lookups) const {
  std::vector<Bags> bags;
  const std::vector<DataType> dtypes(attrs_.num_tables(), dtype_);
  TF_RETURN_IF_ERROR(AllocatePooled(ctx, attrs_, inputs, widths_, dtypes, lookups, first_read));
  TF_RETURN_IF_ERROR(NumberRows(ctx, inputs, shards, &bags));
  for (size_t i = 0; i < lookups->size(); ++i) {
    (*lookups)[i].bags = bags[i];
    (*lookups)[i].bags.filled_id = -1;  // of gradients only
  }
  return Status();
}

Status CombiningKernel::AllocateOnly(OpKernelContext* ctx, const GroupInputs& inputs) const {
  std::vector<Lookup> lookups;
  const std::vector<DataType> dtypes(attrs_.num_tables(), dtype_);
  return AllocatePooled(ctx, attrs_, inputs, widths_, dtypes, &lookups);
}

Status CombiningKernel::FaultOf(const BagFault& fault, const std::vector<Table>& tables) const {
  if (fault.kind != BagFault::kIdOutOfRange) return FaultStatus(fault, attrs_, widths_, name());
  const int table = attrs_.lookup_tables[fault.lookup];
  return errors::InvalidArgument(name(), ": inverse names row ", fault.id, " of the ",
                                 tables[table].shards.num_rows(), " sent of table '",
                                 attrs_.table_names[table],
                                 "'; inverse, counts and rows must be of one request");
}

}  // namespace graph_opt
