#ifndef GRAPH_OPT_KERNELS_LOOKUP_DEVICE_THREADS_H_
#define GRAPH_OPT_KERNELS_LOOKUP_DEVICE_THREADS_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/tensorflow_compat.h"
#include "lookup/parallel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "threads/stage_pool.h"
#include "threads/stage_thread.h"

namespace graph_opt {

// The intra-op threads of a kernel's device, or in a thread of a stage's pool those of the pool. A
// thread takes the next task when it has finished one, so tasks need not cost the same; and the
// caller takes those for which no thread is free, so that it never waits for the work of other ops.
// A thread that yields to others runs all tasks itself: the others need the intra-op threads. For
// little work none are woken.
class DeviceThreads : public Parallel {
 public:
  // For work that takes about as long as to read or write so many bytes of rows.
  DeviceThreads(tensorflow::OpKernelContext* ctx, int64_t bytes)
      : workers_(ctx->device()->tensorflow_cpu_worker_threads()),
        pool_(StagePool::OfThread()),
        bytes_(bytes) {}

  // For work on whole tables, and what nobody can tell the size of before.
  explicit DeviceThreads(tensorflow::OpKernelContext* ctx)
      : DeviceThreads(ctx, std::numeric_limits<int64_t>::max()) {}

  int num_threads() const override { return ThreadsForBytes(most_threads(), bytes_); }

  void Run(int64_t num_tasks, const std::function<void(int64_t)>& work) override {
    const int64_t others =
        std::min<int64_t>(num_threads(), num_tasks) - 1;  // the caller works, too
    if (others <= 0) {
      for (int64_t i = 0; i < num_tasks; ++i) work(i);
      return;
    }
    const auto tasks = std::make_shared<Tasks>(num_tasks, &work);
    for (int64_t i = 0; i < others; ++i) {
      Schedule([tasks] { tasks->Take(); });
    }
    tasks->Take();
    tasks->Wait();
  }

 private:
  int most_threads() const {
    if (pool_ != nullptr) return pool_->num_threads();
    return OnYieldingThread() ? 1 : std::max(workers_->num_threads, 1);
  }

  // Shared with threads that may start after everything is done and Run has returned.
  class Tasks {
   public:
    Tasks(int64_t count, const std::function<void(int64_t)>* work) : count_(count), work_(work) {}

    void Take() {
      for (int64_t i = next_++; i < count_; i = next_++) {
        (*work_)(i);
        if (++done_ == count_) all_done_.Notify();
      }
    }

    void Wait() {
      // The last tasks end within a few microseconds, before this thread could be woken up.
      for (int i = 0; i < kSpins && done_ < count_; ++i) Pause();
      all_done_.WaitForNotification();
    }

   private:
    static constexpr int kSpins = 1000;  // about ten microseconds

    static void Pause() {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }

    const int64_t count_;
    const std::function<void(int64_t)>* const work_;  // belongs to Run's caller
    std::atomic<int64_t> next_{0};
    std::atomic<int64_t> done_{0};
    Notification all_done_;
  };

  void Schedule(std::function<void()> work) const {
    if (pool_ != nullptr) return pool_->Schedule(std::move(work));
    workers_->workers->Schedule(std::move(work));
  }

  const tensorflow::DeviceBase::CpuWorkerThreads* const workers_;
  StagePool* const pool_;
  const int64_t bytes_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_DEVICE_THREADS_H_
