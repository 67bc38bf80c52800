#ifndef GRAPH_OPT_DYNAMIC_INDEX_LOCK_H_
#define GRAPH_OPT_DYNAMIC_INDEX_LOCK_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace graph_opt {

// A table's lock for the indices of its stripes. Those who read them share it, and so do those who
// change them, each a stripe at a time under its mutex; but never both. If both want it, they take
// turns. Nobody may enter twice.
class IndexLock {
 public:
  enum Use { kRead, kChange };

  class Guard {
   public:
    Guard(IndexLock* lock, Use use) : lock_(lock) { lock_->Enter(use); }
    ~Guard() { lock_->Leave(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    IndexLock* const lock_;
  };

 private:
  void Enter(Use use) {
    const Use other = use == kRead ? kChange : kRead;
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_[use];
    changed_.wait(lock, [&] {
      if (users_ == 0) return waiting_[other] == 0 || last_use_ == other;
      return waiting_[other] == 0 && last_use_ == use;
    });
    --waiting_[use];
    ++users_;
    last_use_ = use;
  }
  void Leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--users_ == 0 && waiting_[kRead] + waiting_[kChange] > 0) changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t users_ = 0;
  int64_t waiting_[2] = {0, 0};
  Use last_use_ = kRead;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_INDEX_LOCK_H_
