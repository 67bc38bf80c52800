#ifndef GRAPH_OPT_THREADS_STAGE_POOL_H_
#define GRAPH_OPT_THREADS_STAGE_POOL_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

namespace graph_opt {

// Threads of a stage's own, where the session runs its kernels on threads that it shares with main.
// They live as long as the process.
class StagePool {
 public:
  // The pool of that name, size and priority; made when it is first asked for.
  static StagePool* Of(const std::string& name, int num_threads, int priority);

  // The pool that the calling thread belongs to; null if to none.
  static StagePool* OfThread();

  StagePool(const StagePool&) = delete;
  StagePool& operator=(const StagePool&) = delete;

  int num_threads() const { return num_threads_; }
  // Why threads that have started keep the priority of the others, as in errno; 0: they do not.
  int refusal() const { return refusal_; }
  void Schedule(std::function<void()> work);

 private:
  StagePool(int num_threads, int priority);
  void Work();

  const int num_threads_;
  const int priority_;
  std::atomic<int> refusal_{0};
  std::mutex mutex_;
  std::condition_variable condition_;
  std::deque<std::function<void()>> waiting_;  // guarded by mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_THREADS_STAGE_POOL_H_
