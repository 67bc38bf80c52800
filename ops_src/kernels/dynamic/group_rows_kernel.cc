#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dynamic/read_locks.h"
#include "kernels/dynamic/dynamic_inputs.h"
#include "kernels/dynamic/dynamic_keys.h"
#include "kernels/dynamic/dynamic_table_resource.h"
#include "kernels/dynamic/held_rows.h"
#include "kernels/dynamic/keys_of_table.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "scratch/scratch_pool.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class GroupDynamicRowsKernel : public OpKernel {
 public:
  explicit GroupDynamicRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_parts_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("lookup_tables", &lookup_tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_names", &table_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_shards", &table_parts_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("skip_negative", &skip_negative_));
    std::vector<std::string> strategies;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("partition_strategies", &strategies));
    int num_lookups;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_lookups", &num_lookups));
    if (table_parts_.empty()) table_parts_.assign(table_names_.size(), 1);
    owners_.assign(table_names_.size(), KeyOwners::kMod);
    OP_REQUIRES_OK(ctx, CheckLength("table_shards", table_parts_.size(), table_names_.size()));
    if (!strategies.empty()) {
      OP_REQUIRES_OK(ctx,
                     CheckLength("partition_strategies", strategies.size(), table_names_.size()));
    }
    OP_REQUIRES_OK(ctx, CheckLength("lookup_tables", lookup_tables_.size(), num_lookups));
    for (size_t t = 0; t < strategies.size(); ++t) {
      owners_[t] = strategies[t] == "key" ? KeyOwners::kMod : KeyOwners::kMod1000;
    }
    int64_t total = 0;
    for (size_t t = 0; t < table_names_.size(); ++t) {
      OP_REQUIRES(
          ctx, table_parts_[t] == 1 || (table_parts_[t] > 1 && !strategies.empty()),
          errors::InvalidArgument(name(), ": table '", table_names_[t], "' has ", table_parts_[t],
                                  " parts; need at least one, and partition_strategies "
                                  "if there are several"));
      total += table_parts_[t];
    }
    OP_REQUIRES_OK(ctx, CheckLength("tables", num_parts_, total));
    for (int table : lookup_tables_) {
      OP_REQUIRES(ctx, table >= 0 && table < static_cast<int>(table_names_.size()),
                  errors::InvalidArgument(name(), ": lookup_tables names table ", table, " of ",
                                          table_names_.size()));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    ScratchPool::OfProcess()->BeginCall();
    std::vector<TableKeys> tables;
    std::vector<Tensor> rows;
    OP_REQUIRES_OK(ctx, OpenTables(ctx, &tables));
    OP_REQUIRES_OK(ctx, AllocateRows(ctx, &tables, &rows));
    std::vector<const DynamicTable*> parts;
    for (const TableKeys& table : tables) {
      for (const auto& part : table.parts) parts.push_back(part.get());
    }
    ReadLocks locks;
    locks.Take(std::move(parts));
    std::vector<std::shared_ptr<Holds>> holds(tables.size());
    OP_REQUIRES_OK(ctx, FindAll(ctx, tables, &holds));
    for (size_t i = 0; i < rows.size(); ++i) {
      ctx->set_output(static_cast<int>(i), HoldingRows(rows[i], holds[lookup_tables_[i]]));
    }
    OP_REQUIRES_OK(ctx, WriteTableRows(ctx, tables));
  }

 private:
  Status CheckLength(const char* what, int64_t length, int64_t need) const {
    if (length == need) return Status();
    return errors::InvalidArgument(name(), ": ", what, " has ", length, " entries; need ", need);
  }

  Status OpenTables(OpKernelContext* ctx, std::vector<TableKeys>* tables) const {
    DynamicTable::Purpose purpose;
    TF_RETURN_IF_ERROR(ReadInsert(ctx, ctx->num_inputs() - 1, &purpose));
    int input = 0;
    for (size_t t = 0; t < table_names_.size(); ++t) {
      tables->emplace_back();
      TableKeys& table = tables->back();
      table.owners = owners_[t];
      table.skip_negative = skip_negative_;
      table.purpose = purpose;
      for (int part = 0; part < table_parts_[t]; ++part) {
        table.parts.emplace_back();
        TF_RETURN_IF_ERROR(OpenTable(ctx, input++, &table.parts.back()));
      }
    }
    return Status();
  }

  Status AllocateRows(OpKernelContext* ctx, std::vector<TableKeys>* tables,
                      std::vector<Tensor>* rows) const {
    for (size_t i = 0; i < lookup_tables_.size(); ++i) {
      const Tensor& keys = ctx->input(num_parts_ + static_cast<int>(i));
      rows->emplace_back();
      TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_INT64, keys.shape(), &rows->back()));
      (*tables)[lookup_tables_[i]].lookups.push_back({&keys, Int64sOf(&rows->back())});
    }
    return Status();
  }

  // With many tables each thread has some of them; otherwise all work on one after another.
  Status FindAll(OpKernelContext* ctx, const std::vector<TableKeys>& tables,
                 std::vector<std::shared_ptr<Holds>>* holds) const {
    int64_t bytes = 0;
    for (const TableKeys& table : tables) bytes += table.BytesToFind();
    DeviceThreads threads(ctx, bytes);
    const int64_t count = static_cast<int64_t>(tables.size());
    std::vector<absl::Status> found(tables.size());
    const auto find = [&](int64_t t, Parallel* parallel) {
      (*holds)[t] = std::make_shared<Holds>();
      found[t] = tables[t].FindRows(parallel, (*holds)[t].get());
    };
    if (count >= threads.num_threads()) {
      threads.Run(count, [&](int64_t t) {
        Sequential alone;
        find(t, &alone);
      });
    } else {
      for (int64_t t = 0; t < count; ++t) find(t, &threads);
    }
    for (size_t t = 0; t < tables.size(); ++t) {
      if (found[t].ok()) continue;
      return StatusOfOp(name() + ": table '" + table_names_[t] + "'", found[t]);
    }
    return Status();
  }

  Status WriteTableRows(OpKernelContext* ctx, const std::vector<TableKeys>& tables) const {
    Tensor* table_rows = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(static_cast<int>(lookup_tables_.size()),
                                            TensorShape({num_parts_}), &table_rows));
    int64_t* end = Int64sOf(table_rows);
    for (const TableKeys& table : tables) {
      for (const auto& part : table.parts) *end++ = part->rows().end;
    }
    return Status();
  }

  int num_parts_ = 0;
  std::vector<int> lookup_tables_;
  std::vector<std::string> table_names_;
  std::vector<int> table_parts_;
  std::vector<KeyOwners> owners_;
  bool skip_negative_ = false;
  ScratchUser scratch_;
};

REGISTER_KERNEL_BUILDER(Name("GroupDynamicRows").Device(tensorflow::DEVICE_CPU),
                        GroupDynamicRowsKernel);

}  // namespace
}  // namespace graph_opt
