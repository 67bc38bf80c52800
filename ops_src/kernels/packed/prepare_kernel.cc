#include <algorithm>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/packed/placed_group.h"
#include "kernels/threads/stage_kernel.h"
#include "packed/row_request.h"
#include "packed/unique_ids.h"
#include "scratch/scratch_array.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

int64_t* Int64s(Tensor* tensor) {
  return reinterpret_cast<int64_t*>(tensor->flat<tensorflow::int64>().data());
}

class GroupPrepareKernel : public SendingKernel {
 public:
  explicit GroupPrepareKernel(OpKernelConstruction* ctx) : SendingKernel(ctx) {
    if (!ctx->status().ok()) return;
    OP_REQUIRES_OK(ctx, ReadWidths(ctx, &widths_));
    int num_inserts;
    bool filtered;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_inserts", &num_inserts));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("filtered", &filtered));
    inserted_ = filtered ? NewKeys::kInsert : NewKeys::kAdmit;
    int tables_by_key = 0;
    for (int t = 0; t < attrs_.num_tables(); ++t) tables_by_key += IsByKey(t);
    OP_REQUIRES(
        ctx, num_inserts == 0 || num_inserts == tables_by_key,
        tensorflow::errors::InvalidArgument(name(), ": insert has ", num_inserts,
                                            " entries, need none, or one for each of ", "the ",
                                            tables_by_key, " tables that go by key"));
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

  Status Run(OpKernelContext* ctx) {
    GroupInputs inputs;
    TF_RETURN_IF_ERROR(inputs.Read(ctx, attrs_));
    std::vector<int64_t> table_rows;
    std::vector<GradientTable> tables = Tables(&table_rows);
    for (int t = 0; t < attrs_.num_tables(); ++t) tables[t].dim = widths_[t];
    std::vector<PooledGradient> lookups(attrs_.num_lookups());
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      lookups[i].bags = inputs.bags(i);
      lookups[i].table = attrs_.lookup_tables[i];
    }
    DeviceThreads threads(ctx, BytesOfIds(lookups));
    const Parts parts = Part(tables, lookups);
    if (parts.counts) CountPooled(tables, lookups, parts, &threads);
    UniqueIds unique(tables, by_key(), parts.by_rows, &threads);
    std::vector<BagPacking> bags;
    std::vector<bool> insert;
    TF_RETURN_IF_ERROR(ReadInsert(ctx, &insert));
    const BagFault of_rows = unique.Find();
    const BagFault of_bags = ReadBags(tables, lookups, parts, &threads, &bags);
    TF_RETURN_IF_ERROR(FaultStatus(FirstOf(of_rows, of_bags, parts), attrs_, table_rows, name()));
    Learn(parts, unique);
    Requests requests(attrs_.num_tables());
    Tensor* inverse = nullptr;
    TF_RETURN_IF_ERROR(AllocateRequests(ctx, unique, parts, bags, insert, &requests));
    TF_RETURN_IF_ERROR(
        ctx->allocate_output(num_servers(), TensorShape({unique.inverse_size()}), &inverse));
    unique.Write(requests.rows, requests.keys, inverse->flat<tensorflow::int32>().data());
    WriteBags(parts, bags, requests.bags, &threads);
    for (const Counts& counts : requests.counts) {
      WriteKeyCounts(counts.counts.data(), counts.num_keys, counts.most, counts.request);
    }
    return Status();
  }

 private:
  // Counts the rows of tables whose servers pool. Faults are found when their bags are read.
  void CountPooled(const std::vector<GradientTable>& tables,
                   const std::vector<PooledGradient>& lookups, const Parts& parts,
                   Parallel* parallel) {
    std::vector<PooledGradient> pooled;
    for (const PooledGradient& lookup : lookups) {
      if (parts.pools[lookup.table]) pooled.push_back(lookup);
    }
    if (pooled.empty()) return;
    UniqueIds unique(tables, by_key(), pooled, parallel);
    if (unique.Find().kind == BagFault::kNone) Learn(parts, unique, /*pooled=*/true);
  }

  // How often the keys of a shard were named, and the request that they go to.
  struct Counts {
    ScratchArray<int32_t> counts;
    int64_t num_keys;
    int32_t most;
    int64_t* request;
  };

  // Where rows, keys and bags of each table go.
  struct Requests {
    explicit Requests(int num_tables) : rows(num_tables), keys(num_tables), bags(num_tables) {}
    std::vector<std::vector<int64_t*>> rows;
    std::vector<std::vector<ShardKeys>> keys;
    std::vector<Counts> counts;
    std::vector<int64_t*> bags;
  };

  // Of each table that goes by key, whether new keys get rows.
  Status ReadInsert(OpKernelContext* ctx, std::vector<bool>* insert) const {
    OpInputList inputs;
    TF_RETURN_IF_ERROR(ctx->input_list("insert", &inputs));
    int next = 0;
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      insert->push_back(true);
      if (!IsByKey(t) || inputs.size() == 0) continue;
      const Tensor& given = inputs[next++];
      if (given.NumElements() != 1) {
        return tensorflow::errors::InvalidArgument(name(), ": insert has shape ",
                                                   given.shape().DebugString(), "; need a scalar");
      }
      insert->back() = given.flat<bool>()(0);
    }
    return Status();
  }

  Status AllocateRequests(OpKernelContext* ctx, const UniqueIds& unique, const Parts& parts,
                          const std::vector<BagPacking>& bags, const std::vector<bool>& insert,
                          Requests* requests) const {
    Tensor* counts = nullptr;
    TF_RETURN_IF_ERROR(
        ctx->allocate_output(num_servers() + 1, TensorShape({attrs_.num_shards()}), &counts));
    std::vector<int64_t> words(attrs_.num_shards());
    std::vector<int64_t> sizes(num_servers(), 0);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const int64_t rows = unique.NumRows(t, s - attrs_.first_shard(t));
        words[s] = parts.pools[t] ? BagWords(t, bags)
                   : IsByKey(t)
                       ? KeyRequestWords(rows, unique.MostCount(t, s - attrs_.first_shard(t)))
                       : rows;
        Int64s(counts)[s] = parts.pools[t] ? kPooledByServer : rows;
        sizes[servers()[s]] += kRequestHeaderWords + words[s];
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
        at[0] = parts.pools[t] ? static_cast<int64_t>(lookups_of(t).size())
                : IsByKey(t)   ? kByKey
                               : 0;
        at[1] = words[s];
        at += kRequestHeaderWords;
        if (IsByKey(t)) AddKeys(unique, t, s - attrs_.first_shard(t), insert[t], at, requests);
        requests->rows[t].push_back(at);
        requests->bags[t] = at;
        at += words[s];
      }
    }
    return Status();
  }

  void AddKeys(const UniqueIds& unique, int table, int shard, bool insert, int64_t* request,
               Requests* requests) const {
    const int64_t num_keys = unique.NumRows(table, shard);
    const int32_t most = unique.MostCount(table, shard);
    WriteKeyHeader(num_keys, insert ? inserted_ : NewKeys::kRead, most, request);
    requests->counts.push_back(
        Counts{ScratchArray<int32_t>(std::max<int64_t>(num_keys, 1)), num_keys, most, request});
    requests->keys[table].push_back(
        ShardKeys{request + kKeyHeaderWords, requests->counts.back().counts.data()});
  }

  std::vector<int64_t> widths_;
  NewKeys inserted_ = NewKeys::kInsert;
};

GRAPH_OPT_REGISTER_STAGE_KERNEL("GroupEmbeddingPrepare", GroupPrepareKernel);

}  // namespace
}  // namespace graph_opt
