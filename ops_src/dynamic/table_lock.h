#ifndef GRAPH_OPT_DYNAMIC_TABLE_LOCK_H_
#define GRAPH_OPT_DYNAMIC_TABLE_LOCK_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace graph_opt {

// A lock of a table: shared by those who touch its rows, exclusive for those who move or clear
// them. Whoever wants it exclusively delays new sharers, but only for so long: should a thread
// share it twice, it waits for a moment and not for ever.
class TableLock {
 public:
  void LockShared() {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::chrono::milliseconds most_delay(20);
    changed_.wait_for(lock, most_delay, [this] { return !exclusive_ && waiting_ == 0; });
    changed_.wait(lock, [this] { return !exclusive_; });
    ++shared_;
  }
  void UnlockShared() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--shared_ == 0 && waiting_ > 0) changed_.notify_all();
  }
  void Lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_;
    changed_.wait(lock, [this] { return !exclusive_ && shared_ == 0; });
    --waiting_;
    exclusive_ = true;
  }
  // Takes it exclusively if nobody has it.
  bool TryLock() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (exclusive_ || shared_ > 0) return false;
    exclusive_ = true;
    return true;
  }
  void Unlock() {
    std::lock_guard<std::mutex> lock(mutex_);
    exclusive_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t shared_ = 0;
  int64_t waiting_ = 0;
  bool exclusive_ = false;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_TABLE_LOCK_H_
