#include "pages/moving_tables.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>

#include "pages/large_pages.h"
#include "threads/thread_priority.h"

namespace graph_opt {
namespace {

// Tables need not begin on a large page, which they then share with others' memory. A page of which
// a table has less than this stays as it is: it may have been hardly used.
constexpr int64_t kLeastShare = kLargePageBytes / 4;
constexpr int kMostRefused = 16;  // pages in a row
constexpr int kNiceness = 10;
// A system whose free memory is in pieces has large pages again when others give theirs back. The
// pauses double: the last is of nine minutes.
constexpr std::chrono::seconds kFirstPause{1};
constexpr int kMostPauses = 10;

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
    num_pauses_ = 0;
    added_.notify_one();
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

  // Waits before it gives out once more what the system had no pages for.
  bool Take(Pages* pages) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (waiting_.empty() && !left_.empty() && num_pauses_ < kMostPauses) {
      added_.wait_for(lock, kFirstPause * (1 << num_pauses_), [this] { return !waiting_.empty(); });
      if (waiting_.empty()) {
        ++num_pauses_;
        waiting_.swap(left_);
      }
    }
    is_running_ = !waiting_.empty();
    if (!is_running_) {
      left_.clear();
      return false;
    }
    *pages = waiting_.front();
    waiting_.pop_front();
    return true;
  }

  void MoveAll(Pages pages) {
    int refused = 0;
    for (; pages.next < pages.end && refused < kMostRefused; pages.next += kLargePageBytes) {
      const PageMove move = MoveToLargePage(reinterpret_cast<void*>(pages.next));
      refused = move == PageMove::kDone ? 0 : refused + 1;
      if (move == PageMove::kNoneLeft) Leave({pages.next, pages.next + kLargePageBytes});
    }
    if (!left_.empty() && left_.back().end == pages.next) left_.back().end = pages.end;
  }

  void Leave(const Pages& pages) {
    if (!left_.empty() && left_.back().end == pages.next) {
      left_.back().end = pages.end;
    } else {
      left_.push_back(pages);
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Pages> waiting_;  // guarded by mutex_
  bool is_running_ = false;    // guarded by mutex_
  int num_pauses_ = 0;         // since the last was added; guarded by mutex_
  std::deque<Pages> left_;     // of the thread that runs
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
