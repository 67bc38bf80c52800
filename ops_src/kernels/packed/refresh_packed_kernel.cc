#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/packed/combining_kernel.h"
#include "kernels/packed/staged_rows_resource.h"
#include "kernels/refresh/refresh_counts.h"
#include "kernels/tensorflow_compat.h"
#include "lookup/refresh_bags.h"
#include "packed/staged_rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupRefreshPackedKernel : public CombiningKernel {
 public:
  explicit GroupRefreshPackedKernel(OpKernelConstruction* ctx) : CombiningKernel(ctx, "server") {
    OP_REQUIRES_OK(ctx, counts_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    PackedShards shards;
    std::shared_ptr<TakenRows> taken;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadShards(ctx, inputs, &shards));
    OP_REQUIRES_OK(ctx, GetShared(name(), ctx->input(num_inputs() - 1), &taken));
    if (taken->asks || !taken->sent.empty()) {
      OP_REQUIRES_OK(ctx, CombineSent(ctx, inputs, shards, taken->sent));
    } else {
      OP_REQUIRES_OK(ctx, Refresh(ctx, inputs, shards, *taken));
    }
  }

 private:
  // Pools rows that were asked for in this step, or `sent_before`, in the memory that the batch has
  // for that.
  Status CombineSent(OpKernelContext* ctx, const GroupInputs& inputs, const PackedShards& shards,
                     const std::vector<Tensor>& sent_before) const {
    std::vector<SentRows> sent;
    int first_read, end_read;
    for (int i = 0; i < num_servers(); ++i) {
      const Tensor& rows = sent_before.empty() ? ctx->input(i) : sent_before[i];
      sent.push_back(SentRows{rows.tensor_data().data(), rows.NumElements()});
    }
    TF_RETURN_IF_ERROR(InputRange("read", &first_read, &end_read));
    TF_RETURN_IF_ERROR(Combine(ctx, inputs, shards, sent, first_read));
    return counts_.Tell(ctx, attrs_, std::vector<bool>(attrs_.num_tables(), false), {});
  }

  // Writes new rows over those that were sent ahead, and pools bags again that have one.
  Status Refresh(OpKernelContext* ctx, const GroupInputs& inputs, const PackedShards& shards,
                 const TakenRows& taken) const {
    if (taken.num_shards != static_cast<size_t>(attrs_.num_shards())) {
      return errors::InvalidArgument(name(), ": the batch was staged with rows of ",
                                     taken.num_shards, " shards, need ", attrs_.num_shards());
    }
    const std::vector<StagedBatch::Change>& changes = taken.changes;
    std::vector<Bags> bags;
    TF_RETURN_IF_ERROR(NumberRows(ctx, inputs, shards, &bags));
    std::vector<Tensor> memory;
    TF_RETURN_IF_ERROR(OwnRows(ctx, changes, &memory));
    std::vector<Table> tables;
    std::vector<SentRows> sent;
    for (const Tensor& one : memory) {
      sent.push_back(SentRows{one.tensor_data().data(), one.NumElements()});
    }
    TF_RETURN_IF_ERROR(StatusOfOp(name(), PackedTables(shards, sent, type(), &tables)));
    const std::vector<ChangedRows> changed = Write(changes, shards, tables, sent);
    int first_read, end_read;
    TF_RETURN_IF_ERROR(InputRange("read", &first_read, &end_read));
    std::vector<Lookup> lookups;
    const std::vector<DataType> dtypes(attrs_.num_tables(), dtype());
    TF_RETURN_IF_ERROR(
        AllocatePooled(ctx, attrs_, inputs, shards.widths, dtypes, &lookups, first_read));
    for (size_t i = 0; i < lookups.size(); ++i) lookups[i].bags = bags[i];
    DeviceThreads threads(ctx);
    std::vector<RefreshedLookup> refreshed;
    TF_RETURN_IF_ERROR(FaultOf(
        RefreshBags(tables, changed, lookups, BestRowKernels(), &threads, &refreshed), tables));
    return counts_.Tell(ctx, attrs_, std::vector<bool>(attrs_.num_tables(), true), refreshed);
  }

  // The rows that servers sent, in memory that may be written where rows have changed.
  Status OwnRows(OpKernelContext* ctx, const std::vector<StagedBatch::Change>& changes,
                 std::vector<Tensor>* rows) const {
    std::vector<bool> is_written(num_servers(), false);
    for (const StagedBatch::Change& change : changes) is_written[servers()[change.part]] = true;
    for (int i = 0; i < num_servers(); ++i) {
      const Tensor& sent = ctx->input(i);
      const std::unique_ptr<Tensor> own = is_written[i] ? Unshared(ctx, i) : nullptr;
      rows->push_back(own == nullptr ? sent : *own);
      if (!is_written[i] || own != nullptr) continue;
      TF_RETURN_IF_ERROR(ctx->allocate_temp(sent.dtype(), sent.shape(), &rows->back()));
      const tensorflow::StringPiece bytes = sent.tensor_data();
      std::memcpy(const_cast<char*>(rows->back().tensor_data().data()), bytes.data(), bytes.size());
    }
    return Status();
  }

  // An input whose memory nothing else needs; null if something does.
  static std::unique_ptr<Tensor> Unshared(OpKernelContext* ctx, int input) {
    return ctx->forward_input(input, OpKernelContext::Params::kNoReservation,
                              ctx->input_dtype(input), ctx->input(input).shape(),
                              ctx->input_memory_type(input), ctx->input_alloc_attr(input));
  }

  // Writes new rows over old ones.
  std::vector<ChangedRows> Write(const std::vector<StagedBatch::Change>& changes,
                                 const PackedShards& shards, const std::vector<Table>& tables,
                                 const std::vector<SentRows>& sent) const {
    std::vector<ChangedRows> changed(attrs_.num_tables());
    std::vector<char*> rows(attrs_.num_shards());
    std::vector<int> table_of(attrs_.num_shards());
    std::vector<int64_t> first_numbers(attrs_.num_shards());
    std::vector<char*> next;
    for (const SentRows& one : sent) next.push_back(const_cast<char*>(one.data));
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      changed[t].shards.resize(tables[t].shards.num_shards());
      int64_t number = 0;
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        char*& at = next[servers()[s]];
        table_of[s] = t;
        first_numbers[s] = number;
        rows[s] = at;
        number += shards.counts[s];
        at += shards.counts[s] * RowBytes(tables[t]);
      }
    }
    for (const StagedBatch::Change& change : changes) {
      const int t = table_of[change.part];
      const TableShards& numbers = tables[t].shards;
      const int64_t row_bytes = RowBytes(tables[t]);
      for (size_t i = 0; i < change.places.size(); ++i) {
        const int64_t number = first_numbers[change.part] + change.places[i];
        const int shard = numbers.ShardOf(number);
        RowSet& set = changed[t].shards[shard];
        const int64_t rows_of_shard = numbers.end_key(shard) - numbers.first_key(shard);
        if (set.none()) set = RowSet(rows_of_shard, rows_of_shard);
        set.Add(number - numbers.first_key(shard));
        std::memcpy(rows[change.part] + change.places[i] * row_bytes, change.values[i], row_bytes);
      }
    }
    return changed;
  }

  static int64_t RowBytes(const Table& table) { return table.dim * ByteSize(table.type); }

  RefreshCounts counts_;
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingRefreshPacked").Device(tensorflow::DEVICE_CPU),
                        GroupRefreshPackedKernel);

}  // namespace
}  // namespace graph_opt
