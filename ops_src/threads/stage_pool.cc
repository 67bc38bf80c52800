#include "threads/stage_pool.h"

#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "threads/thread_priority.h"

namespace graph_opt {
namespace {

thread_local StagePool* pool_of_thread = nullptr;

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
  const int refusal = LowerThread(priority_);
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
