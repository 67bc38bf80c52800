#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/packed/placed_group.h"
#include "kernels/tensorflow_compat.h"
#include "lookup/group_lookup.h"
#include "packed/row_request.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupCombineKernel : public PlacedGroupKernel {
 public:
  explicit GroupCombineKernel(OpKernelConstruction* ctx) : PlacedGroupKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadWidths(ctx, &widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    std::vector<Table> tables;
    const std::vector<DataType> dtypes(attrs_.num_tables(), dtype_);
    std::vector<Lookup> lookups;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    std::vector<bool> pooled;
    std::vector<int32_t> numbers_of_bags;
    OP_REQUIRES_OK(ctx, ReadTables(ctx, inputs, &tables, &pooled));
    OP_REQUIRES_OK(ctx, AllocatePooled(ctx, attrs_, inputs, widths_, dtypes, &lookups));
    OP_REQUIRES_OK(ctx, NumberRows(ctx, pooled, &lookups));
    NumberBags(tables, pooled, &lookups, &numbers_of_bags);
    DeviceThreads threads(ctx);
    const BagFault fault = GroupLookup(tables, lookups, BestRowKernels(), &threads);
    if (fault.kind != BagFault::kIdOutOfRange) {
      OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, widths_, name()));
      return;
    }
    const int table = attrs_.lookup_tables[fault.lookup];
    ctx->SetStatus(errors::InvalidArgument(
        name(), ": inverse names row ", fault.id, " of the ", tables[table].shards.num_rows(),
        " sent of table '", attrs_.table_names[table],
        "'; inverse, counts and rows must be of one GroupEmbeddingPrepare"));
  }

 private:
  // `pooled` says for each table whether its server pooled.
  Status ReadTables(OpKernelContext* ctx, const GroupInputs& inputs, std::vector<Table>* tables,
                    std::vector<bool>* pooled) const {
    OpInputList rows;
    const Tensor* counts = nullptr;
    TF_RETURN_IF_ERROR(ctx->input_list("rows", &rows));
    TF_RETURN_IF_ERROR(ctx->input("counts", &counts));
    if (counts->NumElements() != attrs_.num_shards()) {
      return errors::InvalidArgument(name(), ": counts has ", counts->NumElements(),
                                     " entries, need one for each of the ", attrs_.num_shards(),
                                     " shards");
    }
    RowType type;
    TF_RETURN_IF_ERROR(RowTypeOf(dtype_, &type));
    PackedShards shards;
    shards.first_shards = attrs_.first_shards;
    shards.widths = widths_;
    shards.servers = servers();
    shards.counts = reinterpret_cast<const int64_t*>(counts->flat<tensorflow::int64>().data());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      int64_t num_bags = 0;
      for (int i : lookups_of(t)) num_bags += inputs.bags(i).num_bags;
      shards.num_bags.push_back(num_bags);
      pooled->push_back(shards.counts[attrs_.first_shard(t)] == kPooledByServer);
    }
    std::vector<SentRows> sent;
    for (const Tensor& one : rows) {
      sent.push_back(SentRows{one.tensor_data().data(), one.NumElements()});
    }
    return StatusOfOp(name(), PackedTables(shards, sent, type, tables));
  }

  // Replaces ids with the packed numbers of their rows.
  Status NumberRows(OpKernelContext* ctx, const std::vector<bool>& pooled,
                    std::vector<Lookup>* lookups) const {
    const Tensor* inverse = nullptr;
    TF_RETURN_IF_ERROR(ctx->input("inverse", &inverse));
    int64_t num_ids = 0;
    int64_t num_lookups = 0;
    for (const Lookup& lookup : *lookups) {
      if (pooled[lookup.table]) continue;
      num_ids += lookup.bags.num_ids;
      ++num_lookups;
    }
    if (inverse->NumElements() != num_ids + num_lookups) {
      return errors::InvalidArgument(name(), ": inverse has ", inverse->NumElements(),
                                     " entries, need ", num_ids, " for the ids and ", num_lookups,
                                     " for the lookups");
    }
    const tensorflow::int32* numbers = inverse->flat<tensorflow::int32>().data();
    const tensorflow::int32* defaults = numbers + num_ids;
    for (Lookup& lookup : *lookups) {
      if (pooled[lookup.table]) continue;
      lookup.bags.ids = numbers;
      lookup.bags.wide_ids = false;
      lookup.bags.default_id = lookup.bags.default_id < 0 ? -1 : *defaults;
      numbers += lookup.bags.num_ids;
      ++defaults;
    }
    return Status();
  }

  // If the server pooled, each bag has one id, the number of its row.
  void NumberBags(const std::vector<Table>& tables, const std::vector<bool>& pooled,
                  std::vector<Lookup>* lookups, std::vector<int32_t>* numbers) const {
    int64_t most_rows = 0;
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      if (pooled[t]) most_rows = std::max(most_rows, tables[t].shards.num_rows());
    }
    numbers->resize(most_rows);
    std::iota(numbers->begin(), numbers->end(), 0);
    std::vector<int64_t> next(attrs_.num_tables(), 0);
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

  std::vector<int64_t> widths_;
  DataType dtype_ = tensorflow::DT_FLOAT;
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingCombine").Device(tensorflow::DEVICE_CPU),
                        GroupCombineKernel);

}  // namespace
}  // namespace graph_opt
