// Tables move to large pages, as soon as the system has some to give. This program answers in place
// of the system.
#include "pages/moving_tables.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "functors_testing.h"
#include "pages/large_pages.h"

namespace graph_opt {
namespace {

constexpr int kMoveNow = 25;  // MADV_COLLAPSE
constexpr int kPages = 40;

class System {
 public:
  // What it answers to the next `count` calls; after them it has pages.
  void AnswerNext(int count, int error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_ = count;
    error_ = error;
    answered_.clear();
    moved_.clear();
  }

  int Move(const void* page) {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
    ++answered_[page];
    if (left_-- > 0) {
      errno = error_;
      return -1;
    }
    ++moved_[page];
    return 0;
  }

  // Waits until so many pages have been asked for, and moved.
  void Await(size_t answered, size_t moved) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::minutes(2), [&] {
      return answered_.size() == answered && moved_.size() == moved;
    });
    CHECK(came);
    for (const auto& page : moved_) CHECK(page.second == 1);
  }

  int TimesAsked(const void* page) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return answered_[page];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = 0;
  int error_ = 0;
  std::map<const void*, int> answered_;
  std::map<const void*, int> moved_;
};

System* TheSystem() {
  static System* const system = new System;
  return system;
}

char* Address(int table) { return reinterpret_cast<char*>((int64_t{1} + table) << 32); }

// A table that nobody reads.
void MoveTable(int table) {
  MovingTables tables;
  tables.Move({{Address(table), kPages * kLargePageBytes}});
}

void TestAllPagesMove() {
  TheSystem()->AnswerNext(0, 0);
  MoveTable(0);
  TheSystem()->Await(kPages, kPages);
}

void TestPagesAreAskedForAgain() {
  for (int error : {ENOMEM, EAGAIN, EBUSY}) {
    TheSystem()->AnswerNext(20, error);
    MoveTable(1);
    TheSystem()->Await(kPages, kPages);
    // After so many in a row it asked for no more.
    CHECK(TheSystem()->TimesAsked(Address(1) + 16 * kLargePageBytes) == 1);
    CHECK(TheSystem()->TimesAsked(Address(1)) == 3);
  }
}

void TestOtherTablesDoNotWait() {
  TheSystem()->AnswerNext(16, ENOMEM);
  MoveTable(2);
  TheSystem()->Await(16, 0);
  MoveTable(3);
  TheSystem()->Await(2 * kPages, 2 * kPages);
}

void TestWhatIsRefusedStays() {
  TheSystem()->AnswerNext(5, EINVAL);
  MoveTable(4);
  TheSystem()->Await(kPages, kPages - 5);
  MoveTable(5);
  TheSystem()->Await(2 * kPages, 2 * kPages - 5);
  CHECK(TheSystem()->TimesAsked(Address(4)) == 1);
}

}  // namespace
}  // namespace graph_opt

extern "C" int madvise(void* address, size_t bytes, int advice) {
  if (advice == graph_opt::kMoveNow) return graph_opt::TheSystem()->Move(address);
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

int main() {
  if (!graph_opt::CanMoveToLargePages()) return 0;
  graph_opt::TestAllPagesMove();
  graph_opt::TestPagesAreAskedForAgain();
  graph_opt::TestOtherTablesDoNotWait();
  graph_opt::TestWhatIsRefusedStays();
}
