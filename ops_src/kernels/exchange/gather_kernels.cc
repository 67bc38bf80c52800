#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "exchange/joined_exchanges.h"
#include "exchange/received_gradients.h"
#include "exchange/received_requests.h"
#include "kernels/exchange/failing_together.h"
#include "kernels/exchange/owner_kernel.h"
#include "kernels/exchange/splits.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/lookup/group_inputs.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/packed/served_shards.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

class ExchangeGatherKernel : public OwnerKernel<tensorflow::AsyncOpKernel> {
 public:
  explicit ExchangeGatherKernel(OpKernelConstruction* ctx) : OwnerKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("exchange", &exchange_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    Status agreed;
    OP_REQUIRES_OK_ASYNC(ctx, Gather(ctx, &agreed), done);
    if (!agreed.ok()) return FailTogether(ctx, exchange_, agreed, std::move(done));
    done();
  }

 private:
  // Writes the rows, unless the ranks have agreed on an error.
  Status Gather(OpKernelContext* ctx, Status* agreed) const {
    VariableTables tensors;
    TF_RETURN_IF_ERROR(tensors.Open(ctx, 0, num_shards(), VariableTables::kRead));
    for (int i = 0; i < num_shards(); ++i) TF_RETURN_IF_ERROR(CheckShard(tensors, i));
    ServedShards mine;
    for (int i : served()) mine.Add(tensors, i, table_name(i));
    const std::vector<ServedShard>& shards = mine.shards();
    ReceivedRequests received;
    TF_RETURN_IF_ERROR(ReadReceived(ctx, shards, &received));
    *agreed = ToTensorFlow(AgreedStatus(received.states));
    if (!agreed->ok()) return Status();
    ArriveAtExchange(exchange_, ExchangePhase::kReceived, nullptr);
    DeviceThreads threads(ctx, mine.BytesOf(tensors, received.ranks));
    TF_RETURN_IF_ERROR(StatusOfOp(name(), mine.FindRows(tensors, &received.ranks, &threads)));
    const std::vector<int64_t> elements = ElementsOfRanks(shards, received);
    int64_t size = 0;
    Tensor* rows = nullptr;
    TF_RETURN_IF_ERROR(WriteSplits(ctx, name(), 1, elements, &size));
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({size}), &rows));
    TF_RETURN_IF_ERROR(
        StatusOfOp(name(), GatherForRanks(shards, received, type(), BestRowKernels(), &threads,
                                          const_cast<char*>(rows->tensor_data().data()))));
    return Status();
  }

  std::string exchange_;
};

class ExchangeGatherGradKernel : public OwnerKernel<OpKernel> {
 public:
  explicit ExchangeGatherGradKernel(OpKernelConstruction* ctx) : OwnerKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    std::vector<ServedShard> shards;
    ReceivedRequests received;
    const Tensor* gradients = nullptr;
    OP_REQUIRES_OK(ctx, ShardsOf(ctx, &shards));
    OP_REQUIRES_OK(ctx, ReadReceived(ctx, shards, &received));
    OP_REQUIRES_OK(ctx, ReadGradients(ctx, shards, received, &gradients));
    DeviceThreads threads(ctx, BytesOfGradients(shards, received, type()));
    ReceivedGradients sums(shards, received, gradients->tensor_data().data(), type(),
                           BestRowKernels(), &threads);
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), sums.Sort()));
    std::vector<GroupGradient::ShardSums> to;
    OP_REQUIRES_OK(ctx, Allocate(ctx, sums, &to));
    sums.SumRows(to);
  }

 private:
  Status ShardsOf(OpKernelContext* ctx, std::vector<ServedShard>* shards) const {
    const Tensor* table_rows = nullptr;
    TF_RETURN_IF_ERROR(ctx->input("table_rows", &table_rows));
    if (table_rows->NumElements() != num_shards()) {
      return errors::InvalidArgument(name(), ": table_rows has ", table_rows->NumElements(),
                                     " entries, need one for each of the ", num_shards(),
                                     " shards");
    }
    const auto rows = table_rows->flat<tensorflow::int64>();
    for (int i : served()) {
      if (rows(i) < 0 && !IsByKey(i)) {
        return errors::InvalidArgument(name(), ": table_rows has ", rows(i));
      }
      shards->push_back(
          ServedShard{table_name(i), nullptr, IsByKey(i) ? 0 : rows(i), width(i), 0, IsByKey(i)});
    }
    return Status();
  }

  // `to` takes one for each shard that is served; the others get no rows.
  Status Allocate(OpKernelContext* ctx, const ReceivedGradients& sums,
                  std::vector<GroupGradient::ShardSums>* to) const {
    OpOutputList indices;
    OpOutputList values;
    TF_RETURN_IF_ERROR(ctx->output_list("indices", &indices));
    TF_RETURN_IF_ERROR(ctx->output_list("values", &values));
    std::vector<int64_t> rows(num_shards(), 0);
    for (size_t i = 0; i < served().size(); ++i) {
      rows[served()[i]] = sums.NumRows(static_cast<int>(i));
    }
    std::vector<GroupGradient::ShardSums> all;
    for (int i = 0; i < num_shards(); ++i) {
      Tensor* index = nullptr;
      Tensor* value = nullptr;
      TF_RETURN_IF_ERROR(indices.allocate(i, TensorShape({rows[i]}), &index));
      TF_RETURN_IF_ERROR(values.allocate(i, TensorShape({rows[i], width(i)}), &value));
      all.push_back(GroupGradient::ShardSums{
          reinterpret_cast<int64_t*>(index->flat<tensorflow::int64>().data()),
          const_cast<char*>(value->tensor_data().data())});
    }
    for (int i : served()) to->push_back(all[i]);
    return Status();
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("ExchangeGather"), ExchangeGatherKernel);
REGISTER_KERNEL_BUILDER(CPU("ResourceExchangeGather"), ExchangeGatherKernel);
REGISTER_KERNEL_BUILDER(CPU("ExchangeGatherGrad"), ExchangeGatherGradKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
