#ifndef GRAPH_OPT_BUFFER_PENDING_CALL_H_
#define GRAPH_OPT_BUFFER_PENDING_CALL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "buffer/deadline_timer.h"

namespace graph_opt {

// How a caller gives up a waiting call. Kernels implement it with the step's cancellation.
class Interruption {
 public:
  virtual ~Interruption() = default;

  // The call begins to wait: from now on `interrupt` may be called, once, from any thread. Called
  // under the buffer's lock, so it must not call `interrupt` itself. Returns false if the caller
  // has given up already.
  virtual bool Arm(std::function<void()> interrupt) = 0;

  // The call has ended; called outside the lock, before its callback. Must not wait for an
  // `interrupt` that is running: that one finds nothing to do.
  virtual void Disarm() = 0;
};

// What comes with a put or a take.
struct CallOptions {
  // Name of the calling node, for messages; must outlive the call.
  const std::string* caller = nullptr;
  // Longest wait; 0 for no limit.
  int64_t timeout_millis = 0;
  // Of a take: longest wait for a buffer that was never fed; 0 for no limit.
  int64_t runner_grace_millis = 0;
  // May be null.
  std::unique_ptr<Interruption> interruption;
};

// A put or take until its callback runs. The buffer's lock guards its fields until it has ended.
class PendingCall {
 public:
  explicit PendingCall(CallOptions call_options) : options(std::move(call_options)) {}
  virtual ~PendingCall() = default;

  // Hands the outcome to the caller. Called once, outside the lock.
  void Finish() {
    for (const DeadlineTimer::Token& deadline : deadlines) {
      DeadlineTimer::Process().Cancel(deadline);
    }
    if (armed) options.interruption->Disarm();
    RunCallback();
  }

  void BeginWait() {
    waits = true;
    waits_since = DeadlineTimer::Clock::now();
  }

  int64_t WaitedMicros() const {
    if (!waits) return 0;
    const auto waited = DeadlineTimer::Clock::now() - waits_since;
    return std::chrono::duration_cast<std::chrono::microseconds>(waited).count();
  }

  CallOptions options;
  absl::Status status;
  bool ended = false;
  bool waits = false;
  bool armed = false;
  DeadlineTimer::Clock::time_point waits_since;
  DeadlineTimer::Token deadlines[2];  // of timeout_millis and runner_grace_millis

 private:
  virtual void RunCallback() = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_PENDING_CALL_H_
