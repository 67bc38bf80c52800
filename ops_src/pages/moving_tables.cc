#include "pages/moving_tables.h"

#include <deque>
#include <thread>

#include "pages/large_pages.h"
#include "threads/thread_priority.h"

namespace graph_opt {
namespace {

// Tables need not begin on a large page, which they then share with others' memory. A page of which
// a table has less than this stays as it is: it may have been hardly used.
constexpr int64_t kLeastShare = kLargePageBytes / 4;
constexpr int kMostRefused = 16;  // pages in a row; then the system has none left
constexpr int kNiceness = 10;

// Pages from one address to another.
struct Pages {
  uintptr_t next;
  uintptr_t end;
};

Pages PagesOf(const MovingTables::Memory& table) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(table.data);
  const uintptr_t end = begin + static_cast<uintptr_t>(table.bytes);
  return {(begin + kLeastShare) / kLargePageBytes * kLargePageBytes,
          (end + kLargePageBytes - kLeastShare) / kLargePageBytes * kLargePageBytes};
}

// What the process has to move. Memory that is freed meanwhile does no harm: it is moved for
// whoever has it next, or the system refuses.
class Mover {
 public:
  // Never destroyed: its thread may outlive static objects.
  static Mover* OfProcess() {
    static Mover* const mover = new Mover;
    return mover;
  }

  void Add(const Pages& pages) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(pages);
    if (is_running_) return;
    is_running_ = true;
    std::thread([this] { Run(); }).detach();
  }

 private:
  void Run() {
    LowerThread(kNiceness);
    Pages pages;
    while (Take(&pages)) MoveAll(pages);
  }

  bool Take(Pages* pages) {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_running_ = !waiting_.empty();
    if (!is_running_) return false;
    *pages = waiting_.front();
    waiting_.pop_front();
    return true;
  }

  static void MoveAll(Pages pages) {
    int refused = 0;
    for (; pages.next < pages.end && refused < kMostRefused; pages.next += kLargePageBytes) {
      const bool has_moved = MoveToLargePage(reinterpret_cast<void*>(pages.next));
      refused = has_moved ? 0 : refused + 1;
    }
  }

  std::mutex mutex_;
  std::deque<Pages> waiting_;
  bool is_running_ = false;
};

}  // namespace

void MovingTables::Move(const std::vector<Memory>& tables) {
  if (!CanMoveToLargePages()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_.size() != tables.size()) known_.assign(tables.size(), Memory{nullptr, 0});
  for (size_t i = 0; i < tables.size(); ++i) {
    if (known_[i].data == tables[i].data && known_[i].bytes == tables[i].bytes) continue;
    known_[i] = tables[i];
    if (tables[i].bytes >= kLeastShare) Mover::OfProcess()->Add(PagesOf(tables[i]));
  }
}

}  // namespace graph_opt
