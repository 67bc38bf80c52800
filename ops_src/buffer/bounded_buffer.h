#ifndef GRAPH_OPT_BUFFER_BOUNDED_BUFFER_H_
#define GRAPH_OPT_BUFFER_BOUNDED_BUFFER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "buffer/buffer_metrics.h"
#include "buffer/deadline_timer.h"
#include "buffer/open_places.h"
#include "buffer/ordered_elements.h"
#include "buffer/pending_call.h"
#include "buffer/put_and_take.h"

namespace graph_opt {

// A bounded buffer between the threads that fill it, those of a stage, and those that take from it.
//
// Element needs a default and a move constructor and `int64_t ByteSize() const`. Every call returns
// at once and ends with its callback, exactly once: in the calling thread if it need not wait, else
// in the thread that ends the wait. No lock is held while callbacks run and elements are destroyed.
//
// Order: a put may give the place of its step among those of the stage. Elements leave in the order
// of places (ordered_elements.h), each place once. Puts without a place stay in order of arrival,
// as do waiting takes.
//
// Errors wait for room and leave like elements; the take that receives one ends with it.
//
// Must be held by a shared_ptr.
template <typename Element>
class BoundedBuffer : public std::enable_shared_from_this<BoundedBuffer<Element>> {
 public:
  using Callback = std::function<void(const absl::Status&)>;
  using TakeCallback = std::function<void(const absl::Status&, Element)>;

  // Capacities are at least 1.
  BoundedBuffer(std::string name, int64_t capacity) : name_(std::move(name)), capacity_(capacity) {}

  const std::string& name() const { return name_; }

  int64_t capacity() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return capacity_;
  }

  // Hands `element` in; waits while there is no room for it. `place` may be kNoPlace.
  void Put(Element element, int64_t place, CallOptions options, Callback done) {
    PutEntry(Entry{std::move(element), absl::OkStatus()}, place, std::move(options),
             std::move(done));
  }

  // Hands an error in, which must not be OK, as Put does an element.
  void PutError(absl::Status error, int64_t place, CallOptions options, Callback done) {
    PutEntry(Entry{Element(), std::move(error)}, place, std::move(options), std::move(done));
  }

  // Nothing will be put at this place: later ones need not wait for it.
  void Skip(int64_t place) {
    Locked([&](Aftermath* after) {
      if (held_.Skip(place)) ++metrics_.dropped;
      Flush(after);
    });
  }

  // Takes the next element out; waits while there is none.
  void Take(CallOptions options, TakeCallback done) {
    BeginTake(std::make_shared<PendingTake<Element>>(std::move(options), std::move(done)));
  }

  // Gets a copy of what the next take gets; waits like a take, and is no take in the metrics.
  void Peek(CallOptions options, TakeCallback done) {
    const auto copy = [](const Element& element) { return element; };
    BeginTake(std::make_shared<PendingTake<Element>>(std::move(options), std::move(done), copy));
  }

  // No more puts. Takes get what is left, waiting puts included, and then OutOfRange.
  void Close() {
    Locked([&](Aftermath* after) {
      closed_ = true;
      Flush(after);
    });
  }

  // Fails waiting and later calls with `status` and drops the elements. Further calls of Cancel
  // have no effect until Resume: the first error is the one to report.
  void Cancel(const absl::Status& status) {
    Locked([&](Aftermath* after) {
      if (cancel_status_.ok()) cancel_status_ = status;
      after->entries = held_.Clear();
      EndAllPuts(cancel_status_, after);
      EndAllTakes(cancel_status_, after);
    });
  }

  // Reopens the buffer for a runner, with this capacity: drops elements and waiting puts, clears
  // the status and the close, and counts places from `first_place` on. Takes keep waiting.
  void Resume(int64_t capacity, int64_t first_place) {
    Locked([&](Aftermath* after) {
      fed_ = true;
      closed_ = false;
      capacity_ = capacity;
      cancel_status_ = absl::OkStatus();
      metrics_.largest_bytes = 0;
      after->entries = held_.Clear();
      held_.Restart(first_place);
      EndAllPuts(absl::CancelledError(absl::StrCat("buffer '", name_, "' was resumed")), after);
    });
  }

  // Gives the buffer another capacity while it is in use. What it holds beyond a smaller one stays
  // until it is taken.
  void Resize(int64_t capacity) {
    Locked([&](Aftermath* after) {
      capacity_ = capacity;
      Flush(after);
    });
  }

  int64_t Size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return held_.size();
  }

  // Whether a take would find an element, and no other take is waiting.
  bool IsReady() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return pending_takes_.empty() && held_.FrontMayLeave();
  }

  BufferMetrics Metrics() const {
    std::lock_guard<std::mutex> lock(mutex_);
    BufferMetrics metrics = metrics_;
    metrics.capacity = capacity_;
    metrics.size = held_.size();
    metrics.pending_puts = pending_puts_.size();
    metrics.pending_takes = pending_takes_.size();
    metrics.closed = closed_;
    metrics.cancelled = !cancel_status_.ok();
    for (const auto& call : pending_puts_) metrics.put_wait_micros += call->WaitedMicros();
    for (const auto& call : pending_takes_) metrics.take_wait_micros += call->WaitedMicros();
    return metrics;
  }

 private:
  using Entry = BufferEntry<Element>;

  // What is left to do, or to destroy, once the lock is released.
  struct Aftermath {
    std::vector<std::shared_ptr<PendingCall>> ended;
    std::vector<Entry> entries;
  };

  template <typename Action>
  void Locked(Action action) {
    Aftermath after;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      action(&after);
    }
    for (const auto& call : after.ended) call->Finish();
  }

  // Everything below is called with the lock held.

  void Flush(Aftermath* after) {
    bool progress = true;
    while (progress) {
      const bool admitted = AdmitPuts(after);
      const bool served = ServeTakes(after);
      progress = admitted || served;
    }
    if (closed_ && held_.empty() && pending_puts_.empty()) {
      EndAllTakes(absl::OutOfRangeError(
                      absl::StrCat("buffer '", name_, "' is closed and has no elements left")),
                  after);
    }
  }

  void PutEntry(Entry entry, int64_t place, CallOptions options, Callback done) {
    auto call = std::make_shared<PendingPut<Element>>(std::move(options), std::move(entry), place,
                                                      std::move(done));
    Locked([&](Aftermath* after) {
      fed_ = true;
      if (!cancel_status_.ok()) return End(call, cancel_status_, after);
      if (closed_) return End(call, ClosedToPuts(*call), after);
      pending_puts_.push_back(call);
      Flush(after);
      if (!call->ended) Await(call, &metrics_.put_waits, after);
    });
  }

  bool AdmitPuts(Aftermath* after) {
    bool admitted = false;
    bool arrivals_wait = false;
    for (auto it = pending_puts_.begin(); it != pending_puts_.end();) {
      const std::shared_ptr<PendingPut<Element>> put = *it;
      const bool ordered = put->place != kNoPlace;
      if (ordered && !held_.places().IsOpen(put->place)) {
        it = pending_puts_.erase(it);
        EndPut(put, NotOpen(*put), after);
        continue;
      }
      if ((!ordered && arrivals_wait) || !held_.HasRoom(put->place, capacity_)) {
        arrivals_wait = arrivals_wait || !ordered;
        ++it;
        continue;
      }
      it = pending_puts_.erase(it);
      ++metrics_.put_count;
      if (!put->entry.error.ok()) ++metrics_.errors;
      held_.Insert(std::move(put->entry), put->place);
      EndPut(put, absl::OkStatus(), after);
      admitted = true;
    }
    return admitted;
  }

  void BeginTake(const std::shared_ptr<PendingTake<Element>>& call) {
    Locked([&](Aftermath* after) {
      if (!cancel_status_.ok()) return End(call, cancel_status_, after);
      pending_takes_.push_back(call);
      Flush(after);
      if (call->ended) return;
      Await(call, &metrics_.take_waits, after);
      if (!call->ended && !fed_) AwaitRunner(call);
    });
  }

  bool ServeTakes(Aftermath* after) {
    bool served = false;
    while (!pending_takes_.empty() && held_.FrontMayLeave()) {
      const std::shared_ptr<PendingTake<Element>> take = pending_takes_.front();
      pending_takes_.pop_front();
      if (take->copy != nullptr) {
        take->taken = take->copy(held_.Front().element);
        EndTake(take, held_.Front().error, after);
        continue;
      }
      Entry entry = held_.PopFront();
      take->taken = std::move(entry.element);
      ++metrics_.take_count;
      const int64_t bytes = take->taken.ByteSize();
      metrics_.taken_bytes += bytes;
      metrics_.largest_bytes = std::max(metrics_.largest_bytes, bytes);
      EndTake(take, entry.error, after);
      served = true;
    }
    return served;
  }

  void EndPut(const std::shared_ptr<PendingPut<Element>>& put, const absl::Status& status,
              Aftermath* after) {
    metrics_.put_wait_micros += put->WaitedMicros();
    End(put, status, after);
  }

  void EndTake(const std::shared_ptr<PendingTake<Element>>& take, const absl::Status& status,
               Aftermath* after) {
    metrics_.take_wait_micros += take->WaitedMicros();
    End(take, status, after);
  }

  void End(const std::shared_ptr<PendingCall>& call, const absl::Status& status, Aftermath* after) {
    call->ended = true;
    call->status = status;
    after->ended.push_back(call);
  }

  void EndAllPuts(const absl::Status& status, Aftermath* after) {
    for (const auto& put : pending_puts_) EndPut(put, status, after);
    pending_puts_.clear();
  }

  void EndAllTakes(const absl::Status& status, Aftermath* after) {
    for (const auto& take : pending_takes_) EndTake(take, status, after);
    pending_takes_.clear();
  }

  // Lets a call that cannot end now wait: until something else ends it, its deadline passes or its
  // caller gives up.
  template <typename Call>
  void Await(const std::shared_ptr<Call>& call, int64_t* waits, Aftermath* after) {
    CallOptions& options = call->options;
    if (options.interruption != nullptr) {
      call->armed = options.interruption->Arm(FailLater(call, &BoundedBuffer::Interrupted));
      if (!call->armed) return Fail(call, Interrupted(*call), after);
    }
    ++*waits;
    call->BeginWait();
    if (options.timeout_millis > 0) {
      call->deadlines[0] =
          Schedule(options.timeout_millis, FailLater(call, &BoundedBuffer::TimedOut));
    }
  }

  void AwaitRunner(const std::shared_ptr<PendingTake<Element>>& take) {
    const int64_t grace = take->options.runner_grace_millis;
    if (grace > 0) take->deadlines[1] = Schedule(grace, FailLater(take, &BoundedBuffer::NeverFed));
  }

  static DeadlineTimer::Token Schedule(int64_t millis, std::function<void()> callback) {
    const auto when = DeadlineTimer::Clock::now() + std::chrono::milliseconds(millis);
    return DeadlineTimer::Process().Schedule(when, std::move(callback));
  }

  // A function that fails the call with the status that `reason` then returns, unless that is OK or
  // the call has ended. It may run late: it keeps neither the buffer nor the call alive.
  template <typename Call>
  std::function<void()> FailLater(const std::shared_ptr<Call>& call,
                                  absl::Status (BoundedBuffer::*reason)(const PendingCall&) const) {
    std::weak_ptr<BoundedBuffer> weak_buffer = this->shared_from_this();
    std::weak_ptr<Call> weak_call = call;
    return [weak_buffer, weak_call, reason] {
      const std::shared_ptr<BoundedBuffer> buffer = weak_buffer.lock();
      const std::shared_ptr<Call> call = weak_call.lock();
      if (buffer == nullptr || call == nullptr) return;
      buffer->Locked([&](Aftermath* after) {
        if (call->ended) return;
        const absl::Status status = (buffer.get()->*reason)(*call);
        if (!status.ok()) buffer->Fail(call, status, after);
      });
    };
  }

  void Fail(const std::shared_ptr<PendingPut<Element>>& put, const absl::Status& status,
            Aftermath* after) {
    pending_puts_.remove(put);
    EndPut(put, status, after);
    Flush(after);  // those behind it may proceed now, and the buffer may be drained
  }

  void Fail(const std::shared_ptr<PendingTake<Element>>& take, const absl::Status& status,
            Aftermath* after) {
    pending_takes_.remove(take);
    EndTake(take, status, after);
  }

  absl::Status NotOpen(const PendingPut<Element>& put) const {
    return absl::CancelledError(absl::StrCat(*put.options.caller, ": place ", put.place,
                                             " of buffer '", name_,
                                             "' is settled, or it was resumed"));
  }

  absl::Status ClosedToPuts(const PendingCall& call) const {
    return absl::CancelledError(
        absl::StrCat(*call.options.caller, ": buffer '", name_, "' is closed"));
  }

  absl::Status Interrupted(const PendingCall& call) const {
    return absl::CancelledError(absl::StrCat(
        *call.options.caller, ": the step was cancelled while it waited for buffer '", name_, "'"));
  }

  absl::Status TimedOut(const PendingCall& call) const {
    return absl::DeadlineExceededError(absl::StrCat(
        *call.options.caller, ": waited timeout_millis = ", call.options.timeout_millis,
        " ms for buffer '", name_, "', which holds ", held_.size(), " of ", capacity_,
        " elements; the stage at its other end is late or has stopped"));
  }

  absl::Status NeverFed(const PendingCall& call) const {
    if (fed_) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        *call.options.caller, ": waited ", call.options.runner_grace_millis, " ms for buffer '",
        name_,
        "', and no prefetch thread has ever fed it: add graph_opt.make_prefetch_hook() to the "
        "session's hooks, or open the session with graph_opt.Session"));
  }

  const std::string name_;

  mutable std::mutex mutex_;  // guards all below
  int64_t capacity_;
  OrderedElements<Entry> held_;
  std::list<std::shared_ptr<PendingPut<Element>>> pending_puts_;
  std::list<std::shared_ptr<PendingTake<Element>>> pending_takes_;
  absl::Status cancel_status_;
  bool closed_ = false;
  bool fed_ = false;       // a runner resumed it, or something was put
  BufferMetrics metrics_;  // what is counted; the rest is filled in by Metrics()
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_BOUNDED_BUFFER_H_
