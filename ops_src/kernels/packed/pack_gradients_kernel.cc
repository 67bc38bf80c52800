#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/pooled_rows.h"
#include "kernels/packed/placed_group.h"
#include "kernels/packed/staged_rows_resource.h"
#include "kernels/tensorflow_compat.h"
#include "lookup/group_gradient.h"
#include "packed/numbered_keys.h"
#include "packed/row_update.h"
#include "packed/sent_bags.h"
#include "packed/staged_rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

class GroupPackGradientsKernel : public SendingKernel {
 public:
  explicit GroupPackGradientsKernel(OpKernelConstruction* ctx) : SendingKernel(ctx) {
    if (!ctx->status().ok()) return;
    int num_requests;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_requests", &num_requests));
    OP_REQUIRES(ctx, num_requests == 0 || num_requests == num_servers(),
                tensorflow::errors::InvalidArgument(name(), ": num_requests is ", num_requests,
                                                    ", need 0, or one for each of the ",
                                                    num_servers(), " servers"));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_under_way", &num_under_way_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("served_shards", &served_shards_));
    const bool asks = !served_shards_.empty();
    OP_REQUIRES(ctx,
                num_under_way_ <= 1 && static_cast<int>(asks) <= num_under_way_ &&
                    (!asks || static_cast<int>(served_shards_.size()) == attrs_.num_shards()),
                tensorflow::errors::InvalidArgument(
                    name(), ": num_under_way is ", num_under_way_, ", and served_shards has ",
                    served_shards_.size(), " entries; need 1 and one for each of the ",
                    attrs_.num_shards(), " shards, or no entries"));
  }

  void Compute(OpKernelContext* ctx) override {
    GroupInputs inputs;
    std::vector<PooledGradient> lookups;
    std::vector<int64_t> dims;
    std::vector<int64_t> table_rows;
    OP_REQUIRES_OK(ctx, inputs.Read(ctx, attrs_));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, attrs_, inputs, &lookups, &dims));
    std::vector<GradientTable> tables = Tables(&table_rows);
    for (int t = 0; t < attrs_.num_tables(); ++t) tables[t].dim = dims[t];
    DeviceThreads threads(ctx, BytesOfGradients(tables, lookups));
    std::vector<SentBags> sent;
    OP_REQUIRES_OK(ctx, ReadRequests(ctx, lookups, &sent));
    const Parts parts = sent.empty() ? Part(tables, lookups) : Part(tables, lookups, sent);
    NumberedKeys keys(by_key(), parts.by_rows, &threads);
    const BagFault of_keys = keys.Find();
    OP_REQUIRES_OK(ctx,
                   FaultStatus(FirstOf(of_keys, BagFault(), parts), attrs_, table_rows, name()));
    std::vector<PooledGradient> by_rows = parts.by_rows;
    keys.Number(&tables, &by_rows);
    GroupGradient gradient(tables, by_rows, BestRowKernels(), &threads);
    std::vector<BagPacking> bags;
    const BagFault of_rows = gradient.Sort();
    const BagFault of_bags =
        sent.empty() ? ReadBags(tables, lookups, parts, &threads, &bags) : BagFault();
    OP_REQUIRES_OK(ctx, FaultStatus(FirstOf(of_rows, of_bags, parts), attrs_, table_rows, name()));
    if (sent.empty()) Learn(parts, gradient);
    std::vector<std::vector<UpdateBlock>> blocks(attrs_.num_tables());
    OP_REQUIRES_OK(ctx,
                   Allocate(ctx, gradient, dims, parts, WordsOfBags(parts, bags, sent), &blocks));
    std::vector<std::vector<GroupGradient::ShardSums>> sums(tables.size());
    std::vector<int64_t*> words(tables.size());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      words[t] = blocks[t][0].rows;
      for (const UpdateBlock& block : blocks[t]) sums[t].push_back({block.rows, block.values});
    }
    gradient.SumRows(sums);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (size_t s = 0; IsByKey(t) && s < blocks[t].size(); ++s) {
        keys.ToKeys(t, static_cast<int>(s), blocks[t][s].rows, blocks[t][s].count);
      }
    }
    if (sent.empty()) {
      WriteBags(parts, bags, words, &threads);
    } else {
      CopyBags(lookups, sent, words);
    }
    if (num_under_way_ > 0) OP_REQUIRES_OK(ctx, AskForRows(ctx, blocks, &threads));
    CopyGradients(lookups, parts, blocks, &threads);
  }

 private:
  // Empty if the lookups' requests are not at hand.
  Status ReadRequests(OpKernelContext* ctx, const std::vector<PooledGradient>& lookups,
                      std::vector<SentBags>* sent) const {
    OpInputList inputs;
    TF_RETURN_IF_ERROR(ctx->input_list("requests", &inputs));
    if (inputs.size() == 0) return Status();
    std::vector<SentRequest> requests;
    for (const Tensor& request : inputs) {
      requests.push_back(
          SentRequest{reinterpret_cast<const int64_t*>(request.flat<tensorflow::int64>().data()),
                      request.NumElements()});
    }
    return StatusOfOp(name(),
                      FindSentBags(requests, attrs_.first_shards, servers(), lookups, sent));
  }

  // Words of the bags of each table whose server pools.
  std::vector<int64_t> WordsOfBags(const Parts& parts, const std::vector<BagPacking>& bags,
                                   const std::vector<SentBags>& sent) const {
    std::vector<int64_t> words(attrs_.num_tables(), 0);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      if (parts.pools[t]) words[t] = sent.empty() ? BagWords(t, bags) : sent[t].num_words;
    }
    return words;
  }

  void CopyBags(const std::vector<PooledGradient>& lookups, const std::vector<SentBags>& sent,
                const std::vector<int64_t*>& words) const {
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      if (sent[t].words == nullptr) continue;
      std::vector<const PooledGradient*> of_table;
      for (int i : lookups_of(t)) of_table.push_back(&lookups[i]);
      CopySentBags(sent[t], of_table, words[t]);
    }
  }

  bool Asks(int shard) const { return !served_shards_.empty() && !served_shards_[shard].empty(); }

  // Marks the rows that staged batches have, and begins the update.
  Status AskForRows(OpKernelContext* ctx, const std::vector<std::vector<UpdateBlock>>& blocks,
                    Parallel* parallel) const {
    if (served_shards_.empty()) {
      return SetShared(ctx, num_servers(), std::shared_ptr<PendingUpdate>());
    }
    std::shared_ptr<StagedRows> staged;
    TF_RETURN_IF_ERROR(StagedRowsResource::Find(ctx, &staged));
    std::vector<RowsOfShard> rows(attrs_.num_shards());
    std::vector<const UpdateBlock*> of_shards;
    auto memory = std::make_shared<std::vector<Tensor>>();
    for (int server = 0; server < num_servers(); ++server) {
      memory->push_back(*ctx->mutable_output(server));
    }
    for (const std::vector<UpdateBlock>& of_table : blocks) {
      for (const UpdateBlock& block : of_table) {
        RowsOfShard& part = rows[of_shards.size()];
        of_shards.push_back(&block);
        if (!Asks(static_cast<int>(of_shards.size()) - 1)) continue;
        part.shard = served_shards_[of_shards.size() - 1];
        part.is_of_bags = block.lookups != kRowsAndAsked;
        if (part.is_of_bags) continue;
        part.rows = block.rows;
        part.count = block.count;
      }
    }
    const bool is_kept_if_step_ends_well = ctx->output_required(num_servers());
    const Loss if_dropped = is_kept_if_step_ends_well ? Loss::kUnanswered : Loss::kUnreported;
    const std::shared_ptr<PendingUpdate> update =
        staged->Begin(std::move(rows), std::move(memory), if_dropped, parallel);
    for (size_t s = 0; s < of_shards.size(); ++s) {
      if (of_shards[s]->lookups != kRowsAndAsked) continue;
      uint64_t* const bits = reinterpret_cast<uint64_t*>(AskedBits(*of_shards[s]));
      std::fill_n(bits, (of_shards[s]->count + 63) / 64, uint64_t{0});
      const std::vector<bool>& asked = update->asked()[s];
      for (size_t i = 0; i < asked.size(); ++i) {
        bits[i / 64] |= static_cast<uint64_t>(asked[i]) << (i % 64);
      }
    }
    return SetShared(ctx, num_servers(), update);
  }

  // `blocks[table]` are those of the table's shards.
  Status Allocate(OpKernelContext* ctx, const GroupGradient& gradient,
                  const std::vector<int64_t>& dims, const Parts& parts,
                  const std::vector<int64_t>& words_of_bags,
                  std::vector<std::vector<UpdateBlock>>* blocks) const {
    std::vector<std::vector<UpdateBlock>> of_servers(num_servers());
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        const int64_t rows = gradient.NumRows(t, s - attrs_.first_shard(t));
        UpdateBlock block = {rows, dims[t], IsByKey(t) ? kByKey : 0, rows, nullptr, nullptr};
        if (parts.pools[t]) {
          block.count = parts.traffic[t].num_bags;
          block.lookups = static_cast<int64_t>(lookups_of(t).size());
          block.words = words_of_bags[t];
        } else if (Asks(s)) {
          block.lookups = kRowsAndAsked;
          block.words = WordsOfAskedRows(rows);
        }
        of_servers[servers()[s]].push_back(block);
      }
    }
    for (int server = 0; server < num_servers(); ++server) {
      Tensor* update = nullptr;
      TF_RETURN_IF_ERROR(
          ctx->allocate_output(server, TensorShape({UpdateBytes(of_servers[server])}), &update));
      LayOutUpdate(const_cast<char*>(update->tensor_data().data()), &of_servers[server]);
    }
    std::vector<size_t> next(num_servers(), 0);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      for (int s = attrs_.first_shard(t); s < attrs_.first_shard(t + 1); ++s) {
        (*blocks)[t].push_back(of_servers[servers()[s]][next[servers()[s]]++]);
      }
    }
    return Status();
  }

  // Copies the gradients of bags, lookup after lookup. A row of the source may have those of all
  // lookups, so a few rows of all lookups are copied before the next ones.
  void CopyGradients(const std::vector<PooledGradient>& lookups, const Parts& parts,
                     const std::vector<std::vector<UpdateBlock>>& blocks,
                     Parallel* parallel) const {
    constexpr int64_t kRowsAtOnce = 16;
    int64_t most_bags = 0;
    std::vector<float*> to(lookups.size(), nullptr);
    for (int t = 0; t < attrs_.num_tables(); ++t) {
      if (!parts.pools[t]) continue;
      float* values = blocks[t][0].values;
      for (int i : lookups_of(t)) {
        to[i] = values;
        values += lookups[i].bags.num_bags * blocks[t][0].width;
        most_bags = std::max(most_bags, lookups[i].bags.num_bags);
      }
    }
    parallel->Run((most_bags + kRowsAtOnce - 1) / kRowsAtOnce, [&](int64_t piece) {
      for (size_t i = 0; i < lookups.size(); ++i) {
        if (to[i] == nullptr) continue;
        const int64_t width = blocks[lookups[i].table][0].width;
        const int64_t begin = piece * kRowsAtOnce;
        const int64_t end = std::min(begin + kRowsAtOnce, lookups[i].bags.num_bags);
        const float* from = static_cast<const float*>(lookups[i].gradients);
        for (int64_t bag = begin; bag < end; ++bag) {
          std::memcpy(to[i] + bag * width, from + bag * lookups[i].stride, width * sizeof(float));
        }
      }
    });
  }

  int num_under_way_ = 0;
  std::vector<std::string> served_shards_;
};

REGISTER_KERNEL_BUILDER(Name("GroupEmbeddingPackGradients").Device(tensorflow::DEVICE_CPU),
                        GroupPackGradientsKernel);

}  // namespace
}  // namespace graph_opt
