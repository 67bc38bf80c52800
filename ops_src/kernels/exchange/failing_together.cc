#include "kernels/exchange/failing_together.h"

#include <atomic>
#include <memory>

#include "exchange/joined_exchanges.h"
#include "tensorflow/core/framework/cancellation.h"
#include "threads/stage_thread.h"

namespace graph_opt {

void FailTogether(tensorflow::OpKernelContext* ctx, const std::string& exchange,
                  const tensorflow::Status& error, tensorflow::AsyncOpKernel::DoneCallback done) {
  ctx->SetStatus(error);
  tensorflow::CancellationManager* const manager = ctx->cancellation_manager();
  // The ranks' stages settle themselves what is left of a batch.
  if (OnStageThread() || manager == nullptr) return done();
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  const tensorflow::CancellationToken token = manager->get_cancellation_token();
  const bool armed = manager->RegisterCallback(token, [has_ended, done] {
    if (!has_ended->exchange(true)) done();
  });
  if (!armed) return done();
  ArriveAtExchange(exchange, ExchangePhase::kReceived, [has_ended, done, manager, token](bool) {
    if (has_ended->exchange(true)) return;
    // DeregisterCallback would wait for a running cancellation, which may be what ended the call.
    manager->TryDeregisterCallback(token);
    done();
  });
}

}  // namespace graph_opt
