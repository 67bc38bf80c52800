#ifndef GRAPH_OPT_THREADS_STAGE_THREAD_H_
#define GRAPH_OPT_THREADS_STAGE_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace graph_opt {

// Whether the calling thread runs the steps of a stage itself, one kernel after another.
bool OnStageThread();

// Whether it is such a thread and yields to others: work that it handed to threads of the session
// would not yield.
bool OnYieldingThread();

// Lets a stage's thread wait for a call that ends in any thread, so that the step continues where
// it began: neither at the priority nor at the expense of the thread that ended the wait.
class CallEnd {
 public:
  void Notify() {
    // Under the lock: the waiting thread destroys this object as soon as it wakes up.
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    condition_.notify_one();
  }

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return ended_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool ended_ = false;  // guarded by mutex_
};

}  // namespace graph_opt

// Called by graph_opt/ops/stage_thread.py: from now on the calling thread is not a stage's (0),
// runs a stage's steps (1), or runs them and yields to other threads (2).
extern "C" void graph_opt_be_stage_thread(int32_t kind);

#endif  // GRAPH_OPT_THREADS_STAGE_THREAD_H_
