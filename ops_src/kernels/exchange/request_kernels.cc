#include <atomic>
#include <string>
#include <utility>

#include "exchange/joined_exchanges.h"
#include "exchange/sent_messages.h"
#include "kernels/cancelled_step.h"
#include "kernels/kernel_names.h"
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
  void End(OpKernelContext* ctx, bool all_are_ready, const DoneCallback& done) {
    if (all_are_ready) {
      ++*sent_;
      ctx->set_output(0, ctx->input(0));
    } else {
      ctx->SetStatus(StepIsCancelled(*ctx));
    }
    done();
  }

  std::string exchange_;
  std::atomic<int64_t>* const sent_ = SentMessages(name());
};

REGISTER_KERNEL_BUILDER(Name("ExchangeRequests").Device(tensorflow::DEVICE_CPU),
                        ExchangeRequestsKernel);

}  // namespace
}  // namespace graph_opt
