#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/packed/placed_group.h"
#include "packed/row_request.h"
#include "packed/unique_rows.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {
namespace {

int64_t* Int64s(Tensor* tensor) {
  return reinterpret_cast<int64_t*>(tensor->flat<tensorflow::int64>().data());
}

class GroupPrepareKernel : public SendingKernel {
 public:
  explicit GroupPrepareKernel(OpKernelConstruction* ctx) : SendingKernel(ctx) {
    OP_REQUIRES_OK(ctx, ReadWidths(ctx, &widths_));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    std::vector<int64_t> table_rows;
    std::vector<GradientTable> tables = Tables(&table_rows);
    for (int t = 0; t < attrs_.num_tables(); ++t) tables[t].dim = widths_[t];
    std::vector<PooledGradient> lookups(attrs_.num_lookups());
    for (int i = 0; i < attrs_.num_lookups(); ++i) {
      lookups[i].bags = inputs.bags(i);
      lookups[i].bags.filled_id = -1;  // of gradients only
      lookups[i].table = attrs_.lookup_tables[i];
    }
    DeviceThreads threads(ctx);
    const Parts parts = Part(tables, lookups);
    UniqueRows unique(tables, parts.by_rows, &threads);
    std::vector<BagPacking> bags;
    const BagFault of_rows = unique.Find();
    const BagFault of_bags = ReadBags(tables, lookups, parts, &threads, &bags);
    OP_REQUIRES_OK(ctx, FaultStatus(FirstOf(of_rows, of_bags, parts), attrs_, table_rows, name()));
    Learn(parts, unique);
    Requests requests(attrs_.num_tables());
    Tensor* inverse = nullptr;
    OP_REQUIRES_OK(ctx, AllocateRequests(ctx, unique, parts, bags, &requests));
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output(num_servers(), TensorShape({unique.inverse_size()}), &inverse));
    unique.Write(requests.rows, inverse->flat<tensorflow::int32>().data());
    WriteBags(parts, bags, requests.bags, &threads);
  }

 private:
  // Where rows and bags of each table go.
  struct Requests {
    explicit Requests(int num_tables) : rows(num_tables), bags(num_tables) {}
    std::vector<std::vector<int64_t*>> rows;
    std::vector<int64_t*> bags;
  };

  Status AllocateRequests(OpKernelContext* ctx, const UniqueRows& unique, const Parts& parts,
                          const std::vector<BagPacking>& bags, Requests* requests) const {
    Tensor* counts = nullptr;
    TF_RETURN_IF_ERROR(
        ctx->allocate_output(num_servers() + 1, TensorShape({attrs_.num_shards()}), &counts));
    std::vector<int64_t> words(attrs_.num_shards());
    std::vector<int64_t> sizes(num_servers(), 0);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const int64_t rows = unique.NumRows(t, s - attrs_.first_shard(t));
        words[s] = parts.pools[t] ? BagWords(t, bags) : rows;
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
        at[0] = parts.pools[t] ? static_cast<int64_t>(lookups_of(t).size()) : 0;
        at[1] = words[s];
        at += kRequestHeaderWords;
        requests->rows[t].push_back(at);
        requests->bags[t] = at;
        at += words[s];
      }
    }
    return Status();
  }

  std::vector<int64_t> widths_;
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingPrepare").Device(tensorflow::DEVICE_CPU),
                        GroupPrepareKernel);

}  // namespace
}  // namespace graph_opt
