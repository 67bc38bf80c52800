#ifndef GRAPH_OPT_LOOKUP_DEVICE_THREADS_H_
#define GRAPH_OPT_LOOKUP_DEVICE_THREADS_H_

#include <algorithm>
#include <atomic>
#include <functional>

#include "lookup/parallel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/platform/blocking_counter.h"

namespace graph_opt {

// The intra-op threads of a kernel's device. Threads take the next task when they are done with
// one, so tasks need not cost the same.
class DeviceThreads : public Parallel {
 public:
  explicit DeviceThreads(tensorflow::OpKernelContext* ctx)
      : workers_(ctx->device()->tensorflow_cpu_worker_threads()) {}

  int num_threads() const override { return std::max(workers_->num_threads, 1); }

  void Run(int64_t num_tasks, const std::function<void(int64_t)>& work) override {
    std::atomic<int64_t> next(0);
    const auto take = [&] {
      for (int64_t i = next++; i < num_tasks; i = next++) work(i);
    };
    const int others =
        static_cast<int>(std::min<int64_t>(num_threads(), num_tasks)) - 1;  // the caller works, too
    if (others <= 0) return take();
    tensorflow::BlockingCounter running(others);
    std::atomic<int> busy(others);
    for (int i = 0; i < others; ++i) {
      workers_->workers->Schedule([&] {
        take();
        --busy;
        running.DecrementCount();
      });
    }
    take();
    // The others end some microseconds later, sooner than this thread would be woken up.
    for (int i = 0; i < kSpins && busy > 0; ++i) Pause();
    running.Wait();
  }

 private:
  static constexpr int kSpins = 1000;  // some ten microseconds

  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  const tensorflow::DeviceBase::CpuWorkerThreads* const workers_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_DEVICE_THREADS_H_
