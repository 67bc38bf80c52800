#ifndef GRAPH_OPT_BUFFER_DEADLINE_TIMER_H_
#define GRAPH_OPT_BUFFER_DEADLINE_TIMER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace graph_opt {

// Runs callbacks at given times on one thread, which starts with the first Schedule().
//
// Callbacks run without any lock held, one after another, and must not block. Cancel() does not
// wait: a callback that is about to start still runs, so it must cope with its object being gone.
class DeadlineTimer {
 public:
  using Clock = std::chrono::steady_clock;

  // Identifies a scheduled callback; a default-constructed one identifies none.
  struct Token {
    Clock::time_point when;
    uint64_t id = 0;
  };

  // The timer of this process. Never destroyed: its thread may outlive static destructors.
  static DeadlineTimer& Process() {
    static DeadlineTimer* const timer = new DeadlineTimer;
    return *timer;
  }

  // Starts the thread with the priority of the calling one; else the first to schedule does.
  void Start() {
    std::lock_guard<std::mutex> lock(mutex_);
    StartThread();
  }

  Token Schedule(Clock::time_point when, std::function<void()> callback) {
    Token token;
    bool earlier = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      token.when = when;
      token.id = ++last_id_;
      callbacks_.emplace(Key(when, token.id), std::move(callback));
      StartThread();
      earlier = when < wakes_at_;
    }
    // The thread sleeps on until the time it last chose, even when that callback was cancelled:
    // calls with equal timeouts then never wake it, and a late look at the map costs nothing.
    if (earlier) wake_.notify_one();
    return token;
  }

  void RunSoon(std::function<void()> callback) { Schedule(Clock::now(), std::move(callback)); }

  void Cancel(const Token& token) {
    if (token.id == 0) return;
    std::function<void()> dropped;  // destroyed after the lock
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = callbacks_.find(Key(token.when, token.id));
    if (found == callbacks_.end()) return;
    dropped.swap(found->second);
    callbacks_.erase(found);
  }

 private:
  using Key = std::pair<Clock::time_point, uint64_t>;

  DeadlineTimer() = default;

  // With the lock held.
  void StartThread() {
    if (started_) return;
    started_ = true;
    std::thread([this] { Run(); }).detach();
  }

  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      if (callbacks_.empty()) {
        wakes_at_ = Clock::time_point::max();
        wake_.wait(lock);
        continue;
      }
      auto first = callbacks_.begin();
      wakes_at_ = first->first.first;
      if (Clock::now() < wakes_at_) {
        wake_.wait_until(lock, wakes_at_);
        continue;
      }
      std::function<void()> callback = std::move(first->second);
      callbacks_.erase(first);
      lock.unlock();
      callback();
      callback = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<Key, std::function<void()>> callbacks_;
  Clock::time_point wakes_at_ = Clock::time_point::max();
  uint64_t last_id_ = 0;
  bool started_ = false;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_DEADLINE_TIMER_H_
