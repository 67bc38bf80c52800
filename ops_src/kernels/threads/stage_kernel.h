#ifndef GRAPH_OPT_KERNELS_THREADS_STAGE_KERNEL_H_
#define GRAPH_OPT_KERNELS_THREADS_STAGE_KERNEL_H_

#include <atomic>
#include <functional>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "threads/stage_pool.h"

namespace graph_opt {

// The threads of a stage, as the attributes of its nodes say (graph_opt/ops/stage_threads.py).
class StageThreads {
 public:
  tensorflow::Status Read(tensorflow::OpKernelConstruction* ctx);

  // Runs a kernel's work, which ends with a call of `done`, in the thread whose turn it is.
  void Run(tensorflow::OpKernelContext* ctx, const std::function<void()>& work,
           tensorflow::AsyncOpKernel::DoneCallback done);

 private:
  StagePool* PoolOf(tensorflow::OpKernelContext* ctx) const;
  bool HoldsBatch(tensorflow::OpKernelContext* ctx) const;
  void NoteLateness(tensorflow::OpKernelContext* ctx, uint64_t begin, uint64_t cpu_micros);

  std::string stage_;
  int num_threads_ = 1;
  int priority_ = 0;
  bool is_asked_for_ = false;  // whether a session's config says how many threads
  std::atomic<uint64_t> yields_from_{0};
};

// A kernel whose work a stage's own threads do where the session would use those of main. `Kernel`
// has Run(ctx), which returns a status.
template <typename Kernel>
class StageKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit StageKernel(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::AsyncOpKernel(ctx), kernel_(ctx) {
    if (ctx->status().ok()) OP_REQUIRES_OK(ctx, threads_.Read(ctx));
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    threads_.Run(ctx, [this, ctx] { ctx->SetStatus(kernel_.Run(ctx)); }, std::move(done));
  }

 private:
  Kernel kernel_;
  StageThreads threads_;
};

// Registers `Kernel` for an op on CPUs, and for nodes of it that a stage's own threads run.
#define GRAPH_OPT_REGISTER_STAGE_KERNEL(op, Kernel)                                    \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU), Kernel);            \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU).Label("stage_pool"), \
                          StageKernel<Kernel>)

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_THREADS_STAGE_KERNEL_H_
