#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lookup/buffer_shelf.h"
#include "lookup/device_threads.h"
#include "lookup/group_gradient.h"
#include "lookup/group_inputs.h"
#include "lookup/group_lookup.h"
#include "lookup/pooled_rows.h"
#include "packed/row_request.h"
#include "packed/row_update.h"
#include "packed/unique_rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::DataType;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
namespace errors = tensorflow::errors;

int64_t* Int64s(Tensor* tensor) {
  return reinterpret_cast<int64_t*>(tensor->flat<tensorflow::int64>().data());
}

// An op of a group whose shards are on servers.
class PlacedGroupKernel : public OpKernel {
 public:
  explicit PlacedGroupKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attrs_.Read(ctx));
    OP_REQUIRES_OK(ctx, ReadPlacement(ctx));
  }

 protected:
  int num_servers() const { return num_servers_; }
  const std::vector<int>& servers() const { return servers_; }

  // The tables but for their widths, where the op has `shard_rows`.
  std::vector<GradientTable> Tables(std::vector<int64_t>* table_rows) const {
    std::vector<GradientTable> tables(attrs_.num_tables());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      std::vector<int64_t> rows(shard_rows_.begin() + attrs_.first_shard(t),
                                shard_rows_.begin() + attrs_.first_shard(t + 1));
      tables[t].shards = TableShards(attrs_.partition, std::move(rows));
      table_rows->push_back(tables[t].shards.num_rows());
    }
    return tables;
  }

  GroupAttrs attrs_;

 private:
  Status ReadPlacement(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("shard_servers", &servers_));
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_servers", &num_servers_));
    TF_RETURN_IF_ERROR(CheckLength("shard_servers", servers_.size()));
    std::vector<bool> has_shard(num_servers_, false);
    for (int server : servers_) {
      if (server < 0 || server >= num_servers_) {
        return errors::InvalidArgument(name(), ": shard_servers names server ", server, " of ",
                                       num_servers_);
      }
      has_shard[server] = true;
    }
    for (int server = 0; server < num_servers_; ++server) {
      if (has_shard[server]) continue;
      return errors::InvalidArgument(name(), ": server ", server, " has no shard");
    }
    if (!ctx->HasAttr("shard_rows")) return Status();
    TF_RETURN_IF_ERROR(ctx->GetAttr("shard_rows", &shard_rows_));
    TF_RETURN_IF_ERROR(CheckLength("shard_rows", shard_rows_.size()));
    for (tensorflow::int64 rows : shard_rows_) {
      if (rows < 0) return errors::InvalidArgument(name(), ": shard_rows has ", rows);
    }
    return Status();
  }

  Status CheckLength(const char* attribute, size_t length) const {
    if (length == static_cast<size_t>(attrs_.num_shards())) return Status();
    return errors::InvalidArgument(name(), ": ", attribute, " has ", length,
                                   " entries, need one for each of the ", attrs_.num_shards(),
                                   " shards");
  }

  int num_servers_ = 0;
  std::vector<int> servers_;  // of each shard
  std::vector<tensorflow::int64> shard_rows_;
};

class GroupPrepareKernel : public PlacedGroupKernel {
 public:
  using PlacedGroupKernel::PlacedGroupKernel;

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    std::vector<int64_t> table_rows;
    const std::vector<GradientTable> tables = Tables(&table_rows);
    std::vector<PooledGradient> lookups(attrs_.num_lookups());
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      lookups[i].bags = inputs.bags(i);
      lookups[i].bags.filled_id = -1;  // of gradients only
      lookups[i].table = attrs_.lookup_tables[i];
    }
    DeviceThreads threads(ctx);
    std::unique_ptr<UniqueRows::Buffers> buffers = shelf_.Take();
    UniqueRows unique(tables, lookups, &threads, buffers.get());
    const BagFault fault = unique.Find();
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, table_rows, name()));
    std::vector<std::vector<int64_t*>> rows(tables.size());
    Tensor* inverse = nullptr;
    OP_REQUIRES_OK(ctx, AllocateRequests(ctx, unique, &rows));
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(num_servers(), TensorShape({unique.inverse_size()}), &inverse));
    unique.Write(rows, inverse->flat<tensorflow::int32>().data());
    shelf_.PutBack(std::move(buffers));
  }

 private:
  Status AllocateRequests(OpKernelContext* ctx, const UniqueRows& unique,
                          std::vector<std::vector<int64_t*>>* rows) const {
    Tensor* counts = nullptr;
    TF_RETURN_IF_ERROR(
        ctx->allocate_output(num_servers() + 1, TensorShape({attrs_.num_shards()}), &counts));
    std::vector<int64_t> sizes(num_servers(), 0);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        Int64s(counts)[s] = unique.NumRows(t, s - attrs_.first_shard(t));
        sizes[servers()[s]] += 1 + Int64s(counts)[s];
      }
    }
    std::vector<int64_t*> next(num_servers());
    for (int server = 0; server < num_servers(); ++server) {
      Tensor* request = nullptr;
      TF_RETURN_IF_ERROR(ctx->allocate_output(server, TensorShape({sizes[server]}), &request));
      next[server] = Int64s(request);
    }
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        int64_t*& at = next[servers()[s]];
        *at = Int64s(counts)[s];
        (*rows)[t].push_back(at + 1);
        at += 1 + *at;
      }
    }
    return Status();
  }

  BufferShelf<UniqueRows::Buffers> shelf_;
};

class GroupCombineKernel : public PlacedGroupKernel {
 public:
  explicit GroupCombineKernel(OpKernelConstruction* ctx) : PlacedGroupKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_widths", &widths_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
    OP_REQUIRES(ctx, widths_.size() == static_cast<size_t>(attrs_.num_tables()),
                errors::InvalidArgument(name(), ": table_widths has ", widths_.size(),
                                        " entries, need one for each of the ", attrs_.num_tables(),
                                        " tables"));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    std::vector<Table> tables;
    const std::vector<int64_t> dims(widths_.begin(), widths_.end());
    const std::vector<DataType> dtypes(attrs_.num_tables(), dtype_);
    std::vector<Lookup> lookups;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadTables(ctx, dims, &tables));
    OP_REQUIRES_OK(ctx, AllocatePooled(ctx, attrs_, inputs, dims, dtypes, &lookups));
    OP_REQUIRES_OK(ctx, NumberRows(ctx, &lookups));
    DeviceThreads threads(ctx);
    const BagFault fault = GroupLookup(tables, lookups, BestRowKernels(), &threads);
    if (fault.kind != BagFault::kIdOutOfRange) {
      OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, dims, name()));
      return;
    }
    const int table = attrs_.lookup_tables[fault.lookup];
    ctx->SetStatus(errors::InvalidArgument(
        name(), ": inverse names row ", fault.id, " of the ", tables[table].shards.num_rows(),
        " sent of table '", attrs_.table_names[table],
        "'; inverse, counts and rows must be of one GroupEmbeddingPrepare"));
  }

 private:
  Status ReadTables(OpKernelContext* ctx, const std::vector<int64_t>& dims,
                    std::vector<Table>* tables) const {
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
    shards.widths = dims;
    shards.servers = servers();
    shards.counts = reinterpret_cast<const int64_t*>(counts->flat<tensorflow::int64>().data());
    std::vector<SentRows> sent;
    for (const Tensor& one : rows) {
      sent.push_back(SentRows{one.tensor_data().data(), one.NumElements()});
    }
    const std::string wrong = PackedTables(shards, sent, type, tables);
    return wrong.empty() ? Status() : errors::InvalidArgument(name(), ": ", wrong);
  }

  // The ids become the packed numbers of their rows.
  Status NumberRows(OpKernelContext* ctx, std::vector<Lookup>* lookups) const {
    const Tensor* inverse = nullptr;
    TF_RETURN_IF_ERROR(ctx->input("inverse", &inverse));
    int64_t num_ids = 0;
    for (const Lookup& lookup : *lookups) num_ids += lookup.bags.num_ids;
    if (inverse->NumElements() != num_ids + attrs_.num_lookups()) {
      return errors::InvalidArgument(name(), ": inverse has ", inverse->NumElements(),
                                     " entries, need ", num_ids, " for the ids and ",
                                     attrs_.num_lookups(), " for the lookups");
    }
    const tensorflow::int32* numbers = inverse->flat<tensorflow::int32>().data();
    const tensorflow::int32* defaults = numbers + num_ids;
    for (Lookup& lookup : *lookups) {
      lookup.bags.ids = numbers;
      lookup.bags.wide_ids = false;
      lookup.bags.filled_id = -1;  // of gradients only
      lookup.bags.default_id = lookup.bags.default_id < 0 ? -1 : *defaults;
      numbers += lookup.bags.num_ids;
      ++defaults;
    }
    return Status();
  }

  std::vector<tensorflow::int64> widths_;
  DataType dtype_ = tensorflow::DT_FLOAT;
};

class GroupPackGradientsKernel : public PlacedGroupKernel {
 public:
  using PlacedGroupKernel::PlacedGroupKernel;

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> dims;
    std::vector<int64_t> table_rows;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &lookups, &dims));
    std::vector<GradientTable> tables = Tables(&table_rows);
    for (int t = 0; t < attrs_.num_tables(); ++t) tables[t].dim = dims[t];
    DeviceThreads threads(ctx);
    std::unique_ptr<GroupGradient::Buffers> buffers = shelf_.Take();
    GroupGradient gradient(tables, lookups, BestRowKernels(), &threads, buffers.get());
    const BagFault fault = gradient.Sort();
    OP_REQUIRES_OK(ctx, FaultStatus(fault, attrs_, table_rows, name()));
    std::vector<std::vector<GroupGradient::ShardSums>> sums(tables.size());
    OP_REQUIRES_OK(ctx, Allocate(ctx, gradient, dims, &sums));
    gradient.SumRows(sums);
    shelf_.PutBack(std::move(buffers));
  }

 private:
  Status Allocate(OpKernelContext* ctx, const GroupGradient& gradient,
                  const std::vector<int64_t>& dims,
                  std::vector<std::vector<GroupGradient::ShardSums>>* sums) const {
    std::vector<std::vector<UpdateBlock>> blocks(num_servers());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const int64_t rows = gradient.NumRows(t, s - attrs_.first_shard(t));
        blocks[servers()[s]].push_back(UpdateBlock{rows, dims[t], nullptr, nullptr});
      }
    }
    for (int server = 0; server < num_servers(); ++server) {
      Tensor* update = nullptr;
      TF_RETURN_IF_ERROR(
          ctx->allocate_output(server, TensorShape({UpdateBytes(blocks[server])}), &update));
      LayOutUpdate(const_cast<char*>(update->tensor_data().data()), &blocks[server]);
    }
    std::vector<size_t> next(num_servers(), 0);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const UpdateBlock& block = blocks[servers()[s]][next[servers()[s]]++];
        (*sums)[t].push_back(GroupGradient::ShardSums{block.rows, block.values});
      }
    }
    return Status();
  }

  BufferShelf<GroupGradient::Buffers> shelf_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingPrepare"), GroupPrepareKernel);
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingCombine"), GroupCombineKernel);
REGISTER_KERNEL_BUILDER(CPU("GroupEmbeddingPackGradients"), GroupPackGradientsKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
