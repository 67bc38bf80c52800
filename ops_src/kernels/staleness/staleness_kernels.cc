#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/staleness/updated_rows.h"
#include "lookup/missed_updates.h"
#include "lookup/table_shards.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::int32;
using tensorflow::int64;

NamedRows RowsOfTensor(const Tensor& ids, int shard) {
  NamedRows rows;
  rows.wide = ids.dtype() == tensorflow::DT_INT64;
  rows.ids = ids.tensor_data().data();
  rows.num_ids = ids.NumElements();
  rows.shard = shard;
  return rows;
}

// The rows of a kernel's tables, looked up by name in its first step alone: with hundreds of
// tables, that takes longer than everything else the kernels do.
class FoundTables {
 public:
  // Those of the different tables among `tables`, which are the same in each call.
  Status Of(OpKernelContext* ctx, const std::vector<std::string>& tables,
            const std::vector<UpdatedRows::Pointer>** found) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (numbers_.empty()) TF_RETURN_IF_ERROR(Find(ctx, tables));
    *found = &rows_;
    return Status();
  }

  // Which of these a table is, after `Of`.
  size_t table(size_t index) const { return numbers_[index]; }

 private:
  Status Find(OpKernelContext* ctx, const std::vector<std::string>& tables) {
    std::map<std::string, size_t> known;
    std::vector<UpdatedRows::Pointer> rows;
    std::vector<size_t> numbers;
    for (const std::string& table : tables) {
      const auto place = known.emplace(table, rows.size());
      numbers.push_back(place.first->second);
      if (!place.second) continue;
      rows.emplace_back();
      TF_RETURN_IF_ERROR(UpdatedRows::Find(ctx, table, &rows.back()));
    }
    rows_ = std::move(rows);
    numbers_ = std::move(numbers);
    return Status();
  }

  std::mutex mutex_;
  std::vector<UpdatedRows::Pointer> rows_;
  std::vector<size_t> numbers_;
};

class LogUpdatedRowsKernel : public OpKernel {
 public:
  explicit LogUpdatedRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tables", &tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shards", &shards_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("kept", &kept_));
    const int count = ctx->num_inputs();
    OP_REQUIRES(
        ctx, static_cast<int>(tables_.size()) == count && static_cast<int>(shards_.size()) == count,
        errors::InvalidArgument(name(), ": tables has ", tables_.size(), " entries and shards has ",
                                shards_.size(), ", need one for each of the ", count, " inputs"));
  }

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    const std::vector<UpdatedRows::Pointer>* rows = nullptr;
    OP_REQUIRES_OK(ctx, found_.Of(ctx, tables_, &rows));
    std::vector<UpdatedRows::Update> updates(rows->size());
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      updates[found_.table(i)].push_back(UpdatedRows::Ids{ctx->input(i), shards_[i]});
      ctx->set_output(i, ctx->input(i));
    }
    for (size_t t = 0; t < updates.size(); ++t) {
      (*rows)[t]->Append(std::move(updates[t]), kept_);
    }
  }

 private:
  std::vector<std::string> tables_;
  std::vector<int32> shards_;
  int64 kept_ = 0;
  FoundTables found_;
};

class UpdatedRowsPositionKernel : public OpKernel {
 public:
  explicit UpdatedRowsPositionKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tables", &tables_));
  }

  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* ctx) override {
    Tensor* output = nullptr;
    const int64 count = static_cast<int64>(tables_.size());
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({count}), &output));
    const std::vector<UpdatedRows::Pointer>* rows = nullptr;
    OP_REQUIRES_OK(ctx, found_.Of(ctx, tables_, &rows));
    auto positions = output->flat<int64>();
    for (int64 t = 0; t < count; ++t) positions(t) = (*rows)[found_.table(t)]->Position();
  }

 private:
  std::vector<std::string> tables_;
  FoundTables found_;
};

class MeasureStalenessKernel : public OpKernel {
 public:
  explicit MeasureStalenessKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int64> table_shards;
    std::vector<int64> shard_rows;
    std::vector<std::string> strategies;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tables", &tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("id_tables", &id_tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("part_values", &part_values_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("part_tables", &part_tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("part_columns", &part_columns_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("part_widths", &part_widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("bins", &bins_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("least_ids", &least_ids_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("turns", &turns_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_shards", &table_shards));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shard_rows", &shard_rows));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("strategies", &strategies));
    OP_REQUIRES(ctx, AreConsistent(table_shards, shard_rows, strategies),
                errors::InvalidArgument(name(), ": its attributes are of different lengths"));
    auto first = shard_rows.begin();
    for (size_t t = 0; t < tables_.size(); ++t) {
      const Partition partition = strategies[t] == "div" ? Partition::kDiv : Partition::kMod;
      shards_.emplace_back(partition, std::vector<int64_t>(first, first + table_shards[t]));
      first += table_shards[t];
    }
  }

  void Compute(OpKernelContext* ctx) override {
    ScratchPool::OfProcess()->BeginCall();
    OpInputList ids, used, fresh;
    const Tensor* position = nullptr;
    const Tensor* first = nullptr;
    Tensor* missed = nullptr;
    Tensor* squares = nullptr;
    Tensor* measured = nullptr;
    const int64 count = static_cast<int64>(tables_.size());
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->input_list("used", &used));
    OP_REQUIRES_OK(ctx, ctx->input_list("fresh", &fresh));
    OP_REQUIRES_OK(ctx, ctx->input("position", &position));
    OP_REQUIRES_OK(ctx, ctx->input("first", &first));
    OP_REQUIRES(ctx, position->NumElements() == count,
                errors::InvalidArgument(name(), ": position has ", position->NumElements(),
                                        " entries, need one for each of the ", count, " tables"));
    OP_REQUIRES(ctx, first->NumElements() == 1,
                errors::InvalidArgument(name(), ": first has ", first->NumElements(),
                                        " entries, need one"));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({count, bins_}), &missed));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({count, 2}), &squares));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, TensorShape({count}), &measured));
    const std::vector<bool> in_turn = InTurn(ids, first->flat<int32>()(0));
    missed->matrix<int64>().setZero();
    for (int t = 0; t < count; ++t) {
      measured->vec<bool>()(t) = in_turn[t];
      if (!in_turn[t]) continue;
      std::vector<int64_t> histogram;
      OP_REQUIRES_OK(ctx, Count(ctx, t, ids, position->flat<int64>()(t), &histogram));
      for (int i = 0; i < bins_; ++i) missed->matrix<int64>()(t, i) = histogram[i];
    }
    std::vector<Squares> sums(count);
    OP_REQUIRES_OK(ctx, Compare(used, fresh, in_turn, &sums));
    for (int t = 0; t < count; ++t) {
      squares->matrix<double>()(t, 0) = sums[t].difference;
      squares->matrix<double>()(t, 1) = sums[t].value;
    }
  }

 private:
  bool AreConsistent(const std::vector<int64>& table_shards, const std::vector<int64>& shard_rows,
                     const std::vector<std::string>& strategies) const {
    int64 shards = 0;
    for (const int64 of_table : table_shards) shards += of_table;
    const size_t parts = part_values_.size();
    return table_shards.size() == tables_.size() && strategies.size() == tables_.size() &&
           shards == static_cast<int64>(shard_rows.size()) && part_tables_.size() == parts &&
           part_columns_.size() == parts && part_widths_.size() == parts;
  }

  // The tables whose turn it is: from one on, until they have enough of the ids.
  std::vector<bool> InTurn(const OpInputList& ids, int64_t first) const {
    const int64_t count = static_cast<int64_t>(tables_.size());
    std::vector<int64_t> of_table(count, 0);
    int64_t all = 0;
    for (int i = 0; i < ids.size(); ++i) {
      of_table[id_tables_[i]] += ids[i].NumElements();
      all += ids[i].NumElements();
    }
    const int64_t enough = std::max<int64_t>(least_ids_, (all + turns_ - 1) / turns_);
    std::vector<bool> in_turn(count, false);
    int64_t measured = 0;
    for (int64_t n = 0; n < count && (n == 0 || measured < enough); ++n) {
      const int64_t table = (std::max<int64_t>(first, 0) + n) % count;
      in_turn[table] = true;
      measured += of_table[table];
    }
    return in_turn;
  }

  Status Count(OpKernelContext* ctx, int table, const OpInputList& ids, int64_t position,
               std::vector<int64_t>* histogram) const {
    MissedUpdates rows(shards_[table]);
    for (int i = 0; i < ids.size(); ++i) {
      if (id_tables_[i] == table) rows.Use(RowsOfTensor(ids[i], -1));
    }
    UpdatedRows::Pointer log;
    TF_RETURN_IF_ERROR(UpdatedRows::Find(ctx, tables_[table], &log));
    for (const UpdatedRows::Update& update : log->Since(position)) {
      std::vector<NamedRows> written;
      for (const UpdatedRows::Ids& one : update) {
        written.push_back(RowsOfTensor(one.ids, one.shard));
      }
      rows.Miss(written);
    }
    *histogram = rows.Histogram(bins_);
    return Status();
  }

  Status Compare(const OpInputList& used, const OpInputList& fresh,
                 const std::vector<bool>& in_turn, std::vector<Squares>* sums) const {
    for (size_t p = 0; p < part_values_.size(); ++p) {
      if (!in_turn[part_tables_[p]]) continue;
      const Tensor& ahead = used[part_values_[p]];
      const Tensor& now = fresh[part_values_[p]];
      if (ahead.shape() != now.shape()) {
        return errors::InvalidArgument(name(), ": used has shape ", ahead.shape().DebugString(),
                                       ", fresh has shape ", now.shape().DebugString());
      }
      Columns columns;
      TF_RETURN_IF_ERROR(RowTypeOf(now.dtype(), &columns.type));
      if (now.NumElements() == 0) continue;
      columns.stride = now.dims() == 0 ? 1 : now.dim_size(now.dims() - 1);
      columns.num_rows = now.NumElements() / columns.stride;
      columns.first = part_columns_[p];
      columns.width = part_widths_[p] < 0 ? columns.stride : part_widths_[p];
      if (columns.first < 0 || columns.first + columns.width > columns.stride) {
        return errors::InvalidArgument(name(), ": a part ends behind the ", columns.stride,
                                       " columns of its value");
      }
      Columns before = columns;
      before.data = ahead.tensor_data().data();
      columns.data = now.tensor_data().data();
      AddSquares(before, columns, &(*sums)[part_tables_[p]]);
    }
    return Status();
  }

  std::vector<std::string> tables_;
  std::vector<TableShards> shards_;
  std::vector<int32> id_tables_;
  std::vector<int32> part_values_;
  std::vector<int32> part_tables_;
  std::vector<int64> part_columns_;
  std::vector<int64> part_widths_;
  int bins_ = 0;
  int64 least_ids_ = 0;
  int64 turns_ = 1;
  ScratchUser scratch_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("LogUpdatedRows"), LogUpdatedRowsKernel);
REGISTER_KERNEL_BUILDER(CPU("UpdatedRowsPosition"), UpdatedRowsPositionKernel);
REGISTER_KERNEL_BUILDER(CPU("MeasureStaleness"), MeasureStalenessKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
