#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exchange/joined_exchanges.h"
#include "exchange/message_header.h"
#include "exchange/sent_requests.h"
#include "kernels/cancelled_step.h"
#include "kernels/exchange/splits.h"
#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"
#include "threads/stage_thread.h"

namespace graph_opt {
namespace {

using tensorflow::CancellationManager;
using tensorflow::CancellationToken;

class ExchangeRequestsKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit ExchangeRequestsKernel(OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("exchange", &exchange_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    OP_REQUIRES_OK_ASYNC(ctx, Write(ctx), done);
    CancellationManager* const manager = ctx->cancellation_manager();
    // The ranks' stages settle themselves when a batch is sent.
    if (OnStageThread() || manager == nullptr) return End(ctx, true, done);
    const CancellationToken token = manager->get_cancellation_token();
    const std::string& exchange = exchange_;
    const bool armed = manager->RegisterCallback(
        token, [exchange] { WithdrawFromExchange(exchange, ExchangePhase::kReady); });
    if (!armed) {
      WithdrawFromExchange(exchange, ExchangePhase::kReady);
      return End(ctx, false, done);
    }
    ArriveAtExchange(exchange, ExchangePhase::kReady,
                     [this, ctx, done, manager, token](bool all_are_ready) {
                       // DeregisterCallback would wait for a cancellation, which may be the caller.
                       manager->TryDeregisterCallback(token);
                       End(ctx, all_are_ready, done);
                     });
  }

 private:
  // The message: a header and a request for each rank.
  Status Write(OpKernelContext* ctx) const {
    OpInputList inputs;
    OpInputList ended;
    TF_RETURN_IF_ERROR(ctx->input_list("requests", &inputs));
    TF_RETURN_IF_ERROR(ctx->input_list("input_ended", &ended));
    RankState state;
    if (ended.size() > 0 && ended[0].scalar<bool>()()) state.code = kInputEnded;
    std::vector<int64_t> header;
    AppendHeader(state, &header);
    const int64_t header_words = static_cast<int64_t>(header.size());
    std::vector<EncodedRequest> requests;
    std::vector<int64_t> splits;
    for (int rank = 0; rank < inputs.size(); ++rank) {
      requests.emplace_back(
          reinterpret_cast<const int64_t*>(inputs[rank].flat<tensorflow::int64>().data()),
          inputs[rank].NumElements());
      splits.push_back(header_words + requests.back().num_words());
    }
    int64_t size = 0;
    Tensor* message = nullptr;
    TF_RETURN_IF_ERROR(WriteSplits(ctx, name(), 1, splits, &size));
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({size}), &message));
    int64_t* to = reinterpret_cast<int64_t*>(message->flat<tensorflow::int64>().data());
    for (size_t rank = 0; rank < requests.size(); ++rank) {
      requests[rank].Write(std::copy(header.begin(), header.end(), to));
      to += splits[rank];
    }
    return Status();
  }

  void End(OpKernelContext* ctx, bool all_are_ready, const DoneCallback& done) {
    if (!all_are_ready) ctx->SetStatus(StepIsCancelled(*ctx));
    done();
  }

  std::string exchange_;
};

REGISTER_KERNEL_BUILDER(Name("ExchangeRequests").Device(tensorflow::DEVICE_CPU),
                        ExchangeRequestsKernel);

}  // namespace
}  // namespace graph_opt
