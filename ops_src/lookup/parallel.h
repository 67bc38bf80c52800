#ifndef GRAPH_OPT_LOOKUP_PARALLEL_H_
#define GRAPH_OPT_LOOKUP_PARALLEL_H_

#include <algorithm>
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

// How many of so many threads are worth waking for work that takes as long as to read or write so
// many bytes of rows: waking one takes about as long as 256 KiB of them.
inline int ThreadsForBytes(int most, int64_t bytes) {
  constexpr int64_t kBytesOfThread = 256 << 10;
  return static_cast<int>(std::min<int64_t>(most, 1 + bytes / kBytesOfThread));
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_PARALLEL_H_
