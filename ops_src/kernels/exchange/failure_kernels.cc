#include <algorithm>
#include <string>
#include <vector>

#include "exchange/received_requests.h"
#include "kernels/exchange/splits.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::tstring;

class ExchangeFailureKernel : public OpKernel {
 public:
  explicit ExchangeFailureKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_ranks", &num_ranks_));
  }

  void Compute(OpKernelContext* ctx) override {
    RankState state;
    state.code = ctx->input(0).scalar<tensorflow::int32>()();
    const tstring& text = ctx->input(1).scalar<tstring>()();
    state.text.assign(text.data(), text.size());
    OP_REQUIRES(ctx, state.code != 0,
                errors::InvalidArgument(name(), ": code is 0; need that of an error"));
    std::vector<int64_t> message;
    AppendHeader(state, &message);
    const int64_t words = static_cast<int64_t>(message.size());
    int64_t size = 0;
    Tensor* requests = nullptr;
    OP_REQUIRES_OK(ctx,
                   WriteSplits(ctx, name(), 1, std::vector<int64_t>(num_ranks_, words), &size));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({size}), &requests));
    tensorflow::int64* const to = requests->flat<tensorflow::int64>().data();
    for (int rank = 0; rank < num_ranks_; ++rank) {
      std::copy(message.begin(), message.end(), to + rank * words);
    }
  }

 private:
  int num_ranks_ = 0;
};

class ExchangeStatusKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OpInputList requests;
    OpInputList splits;
    OP_REQUIRES_OK(ctx, ctx->input_list("requests", &requests));
    OP_REQUIRES_OK(ctx, ctx->input_list("splits", &splits));
    std::vector<RankState> agreed;
    for (int i = 0; i < requests.size(); ++i) {
      const auto numbers = splits[i].flat<tensorflow::int32>();
      const std::vector<int64_t> sizes(numbers.data(), numbers.data() + numbers.size());
      std::vector<RankState> states;
      OP_REQUIRES_OK(
          ctx, StatusOfOp(name(), ReadHeaders(reinterpret_cast<const int64_t*>(
                                                  requests[i].flat<tensorflow::int64>().data()),
                                              requests[i].NumElements(), sizes, &states)));
      agreed.resize(std::max(agreed.size(), states.size()));
      for (size_t rank = 0; rank < states.size(); ++rank) {
        if (agreed[rank].has_batch()) agreed[rank] = states[rank];
      }
    }
    const absl::Status status = AgreedStatus(agreed);
    Tensor* code = nullptr;
    Tensor* text = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &code));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({}), &text));
    code->scalar<tensorflow::int32>()() = static_cast<tensorflow::int32>(status.code());
    text->scalar<tstring>()() = std::string(status.message());
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("ExchangeFailure"), ExchangeFailureKernel);
REGISTER_KERNEL_BUILDER(CPU("ExchangeStatus"), ExchangeStatusKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
