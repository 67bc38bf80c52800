#include "kernels/threads/stage_kernel.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "kernels/buffer/session_resources.h"
#include "kernels/buffer/tensor_buffer_resource.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
#include "threads/stage_thread.h"

namespace graph_opt {
namespace {

// As in graph_opt/runtime/stage_worker.py: if main waits for work that went without a core for so
// long, other processes keep the cores busy, and work does not yield for a while.
constexpr uint64_t kStarvedMicros = 20000;
constexpr uint64_t kStarvedRatio = 4;
constexpr uint64_t kPauseRatio = 50;

uint64_t NowMicros() { return tensorflow::Env::Default()->NowMicros(); }

// Once in a process.
void WarnOfRefusal(int refusal) {
  static const bool warned = [refusal] {
    LOG(WARNING) << "prefetch_priority has no effect, the threads that prefetch keep the priority "
                    "of the others: "
                 << std::strerror(refusal);
    return true;
  }();
  static_cast<void>(warned);
}

// CPU time of the calling thread.
uint64_t CpuMicros() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000 + static_cast<uint64_t>(time.tv_nsec) / 1000;
}

}  // namespace

Status StageThreads::Read(OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("_stage_buffer", &stage_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("_stage_pool_threads", &num_threads_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("_stage_pool_priority", &priority_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("_stage_pool_asked_for", &is_asked_for_));
  num_threads_ = std::max(num_threads_, 1);
  // On a single core, main has to wait for the same work, whoever does it.
  if (tensorflow::port::MaxParallelism() == 1) priority_ = 0;
  return Status();
}

void StageThreads::Run(OpKernelContext* ctx, const std::function<void()>& work,
                       tensorflow::AsyncOpKernel::DoneCallback done) {
  StagePool* const pool = PoolOf(ctx);
  if (pool == nullptr) {
    work();
    return done();
  }
  const uint64_t begin = NowMicros();
  pool->Schedule([this, ctx, pool, begin, work, done = std::move(done)] {
    const uint64_t cpu = CpuMicros();
    work();
    NoteLateness(ctx, begin, CpuMicros() - cpu);
    if (pool->refusal() != 0) {
      WarnOfRefusal(pool->refusal());
    }
    done();
  });
}

StagePool* StageThreads::PoolOf(OpKernelContext* ctx) const {
  if (OnStageThread()) return nullptr;
  if (priority_ > 0 && NowMicros() >= yields_from_ && HoldsBatch(ctx)) {
    return StagePool::Of(stage_, num_threads_, priority_);
  }
  return is_asked_for_ ? StagePool::Of(stage_, num_threads_, 0) : nullptr;
}

bool StageThreads::HoldsBatch(OpKernelContext* ctx) const {
  tensorflow::ResourceMgr* const resources = ctx->resource_manager();
  TensorBufferResource* buffer = nullptr;
  const std::string name = NameInSession(ctx, stage_);
  if (!resources->Lookup(resources->default_container(), name, &buffer).ok()) return false;
  const tensorflow::core::ScopedUnref reference(buffer);
  return buffer->buffer()->IsReady();
}

void StageThreads::NoteLateness(OpKernelContext* ctx, uint64_t begin, uint64_t cpu_micros) {
  if (priority_ == 0) return;
  const uint64_t now = NowMicros();
  const uint64_t lost = std::max(now - begin, cpu_micros) - cpu_micros;
  if (lost <= std::max(kStarvedMicros, kStarvedRatio * cpu_micros) || HoldsBatch(ctx)) return;
  yields_from_ = now + kPauseRatio * lost;
}

}  // namespace graph_opt
