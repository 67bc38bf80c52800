#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exchange/joined_exchanges.h"
#include "exchange/message_header.h"
#include "exchange/received_requests.h"
#include "kernels/exchange/failing_together.h"
#include "kernels/exchange/splits.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "keys/owned_keys.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace graph_opt {
namespace {

const int64_t* NumbersOf(const Tensor& tensor) {
  return reinterpret_cast<const int64_t*>(tensor.flat<tensorflow::int64>().data());
}

Status WriteNumbers(OpKernelContext* ctx, int output, const std::vector<int64_t>& numbers) {
  Tensor* tensor = nullptr;
  const TensorShape shape({static_cast<int64_t>(numbers.size())});
  TF_RETURN_IF_ERROR(ctx->allocate_output(output, shape, &tensor));
  std::copy(numbers.begin(), numbers.end(), tensor->flat<tensorflow::int64>().data());
  return Status();
}

class KeysByOwnerKernel : public OpKernel {
 public:
  explicit KeysByOwnerKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_ranks", &num_ranks_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& occurrences = ctx->input(0);
    const int64_t count = occurrences.NumElements();
    Tensor* places = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, TensorShape({count}), &places));
    const OwnedKeys owned =
        ByOwner(NumbersOf(occurrences), count, num_ranks_,
                reinterpret_cast<int64_t*>(places->flat<tensorflow::int64>().data()));
    RankState state;
    if (ctx->input(1).scalar<bool>()()) state.code = kInputEnded;
    std::vector<int64_t> requests;
    requests.reserve(owned.keys.size() + num_ranks_ * kMessageHeaderWords);
    std::vector<int64_t> splits;
    auto next = owned.keys.begin();
    for (int32_t keys : owned.splits) {
      AppendHeader(state, &requests);
      requests.insert(requests.end(), next, next + keys);
      next += keys;
      splits.push_back(kMessageHeaderWords + keys);
    }
    int64_t size = 0;
    OP_REQUIRES_OK(ctx, WriteNumbers(ctx, 0, requests));
    OP_REQUIRES_OK(ctx, WriteSplits(ctx, name(), 1, splits, &size));
  }

 private:
  int num_ranks_;
};

class AskedKeysKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit AskedKeysKernel(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("exchange", &exchange_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    std::vector<RankState> states;
    std::vector<int64_t> counts;
    std::vector<int64_t> keys;
    OP_REQUIRES_OK_ASYNC(ctx, Read(ctx, &states, &counts, &keys), done);
    const Status agreed = ToTensorFlow(AgreedStatus(states));
    if (!agreed.ok()) return FailTogether(ctx, exchange_, agreed, std::move(done));
    ArriveAtExchange(exchange_, ExchangePhase::kReceived, nullptr);
    int64_t size = 0;
    OP_REQUIRES_OK_ASYNC(ctx, WriteNumbers(ctx, 0, keys), done);
    OP_REQUIRES_OK_ASYNC(ctx, WriteSplits(ctx, name(), 1, counts, &size), done);
    done();
  }

 private:
  Status Read(OpKernelContext* ctx, std::vector<RankState>* states, std::vector<int64_t>* counts,
              std::vector<int64_t>* keys) const {
    const Tensor& requests = ctx->input(0);
    std::vector<int64_t> sizes;
    TF_RETURN_IF_ERROR(ReadSplits(ctx, name(), &sizes));
    return StatusOfOp(name(), ReadNumbers(NumbersOf(requests), requests.NumElements(), sizes,
                                          states, counts, keys));
  }

  std::string exchange_;
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("ExchangeKeysByOwner"), KeysByOwnerKernel);
REGISTER_KERNEL_BUILDER(CPU("ExchangeAskedKeys"), AskedKeysKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
