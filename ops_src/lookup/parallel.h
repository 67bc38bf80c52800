#ifndef GRAPH_OPT_LOOKUP_PARALLEL_H_
#define GRAPH_OPT_LOOKUP_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace graph_opt {

// The threads that a functor may use, the caller's own included.
class Parallel {
 public:
  virtual ~Parallel() = default;

  virtual int num_threads() const = 0;

  // Runs work(0) ... work(num_tasks - 1), each once, on any thread, and waits for all.
  virtual void Run(int64_t num_tasks, const std::function<void(int64_t)>& work) = 0;
};

// Everything on the calling thread.
class Sequential : public Parallel {
 public:
  int num_threads() const override { return 1; }
  void Run(int64_t num_tasks, const std::function<void(int64_t)>& work) override {
    for (int64_t i = 0; i < num_tasks; ++i) work(i);
  }
};

// As many of another's threads as are worth waking for work that reads or writes about so many
// bytes of rows: waking one takes about as long as 256 KiB of them.
class ThreadsForBytes : public Parallel {
 public:
  ThreadsForBytes(Parallel* parallel, int64_t bytes)
      : parallel_(parallel),
        num_threads_(static_cast<int>(
            std::min<int64_t>(parallel->num_threads(), 1 + bytes / kBytesOfThread))) {}

  int num_threads() const override { return num_threads_; }

  void Run(int64_t num_tasks, const std::function<void(int64_t)>& work) override {
    if (num_threads_ == parallel_->num_threads()) return parallel_->Run(num_tasks, work);
    if (num_threads_ == 1) return Sequential().Run(num_tasks, work);
    std::atomic<int64_t> next(0);
    parallel_->Run(num_threads_, [&](int64_t) {
      for (int64_t task = next++; task < num_tasks; task = next++) work(task);
    });
  }

 private:
  static constexpr int64_t kBytesOfThread = 256 << 10;

  Parallel* const parallel_;
  const int num_threads_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_PARALLEL_H_
