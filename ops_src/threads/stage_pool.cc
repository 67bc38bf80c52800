#include "threads/stage_pool.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

namespace graph_opt {
namespace {

thread_local StagePool* pool_of_thread = nullptr;

// Lowers the priority of the calling thread; returns 0, or why the system refuses.
int Lower(int priority) {
  if (priority == 0) return 0;
#if defined(__linux__)
  if (priority == StagePool::kIdle) {
    sched_param none = {};
    return sched_setscheduler(0, SCHED_IDLE, &none) == 0 ? 0 : errno;
  }
  // Below the process, whose own value may not be 0; 19 is the lowest there is.
  const int below = std::min(19, getpriority(PRIO_PROCESS, getpid()) + priority);
  return setpriority(PRIO_PROCESS, 0, below) == 0 ? 0 : errno;  // of this thread alone
#else
  return ENOSYS;
#endif
}

}  // namespace

StagePool* StagePool::Of(const std::string& name, int num_threads, int priority) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const pools = new std::map<std::tuple<std::string, int, int>, StagePool*>;
  std::lock_guard<std::mutex> lock(*mutex);
  StagePool*& pool = (*pools)[std::make_tuple(name, num_threads, priority)];
  if (pool == nullptr) pool = new StagePool(num_threads, priority);
  return pool;
}

StagePool* StagePool::OfThread() { return pool_of_thread; }

StagePool::StagePool(int num_threads, int priority)
    : num_threads_(num_threads), priority_(priority) {
  for (int i = 0; i < num_threads; ++i) std::thread([this] { Work(); }).detach();
}

void StagePool::Schedule(std::function<void()> work) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  condition_.notify_one();
}

void StagePool::Work() {
  pool_of_thread = this;
#if defined(__linux__)
  pthread_setname_np(pthread_self(), "graph_opt/stage");
#endif
  const int refusal = Lower(priority_);
  if (refusal != 0) refusal_ = refusal;
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      condition_.wait(lock, [this] { return !waiting_.empty(); });
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace graph_opt
