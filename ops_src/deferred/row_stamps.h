#ifndef GRAPH_OPT_DEFERRED_ROW_STAMPS_H_
#define GRAPH_OPT_DEFERRED_ROW_STAMPS_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "pages/large_pages.h"

namespace graph_opt {

// For each row the step that it is current as of, and a lock, in 32 bits. Steps are kept modulo
// 2^30; that is enough, since no row is left alone for that long.
class RowStamps {
 public:
  // Rows whose slots are known to be 0, and stay so until a gradient comes, are not stamped but
  // resting: they are current as of any step.
  struct Stamp {
    uint32_t bits;
    bool is_resting() const { return bits == kResting; }
    bool is_locked() const { return bits == kLocked; }

    // How many steps before `step`; negative where it is a later one. Of stamped rows.
    int32_t Age(uint32_t step) const {
      return static_cast<int32_t>((step - bits) << kUnusedBits) >> kUnusedBits;
    }

    // Whether the row is stamped, and with an earlier step.
    bool IsBehind(uint32_t step) const { return bits < kResting && Age(step) > 0; }
  };

  RowStamps(int64_t num_rows, uint32_t step) : num_rows_(num_rows), stamps_(NewStamps(num_rows)) {
    for (int64_t row = 0; row < num_rows; ++row) {
      stamps_[row].store(step & kSteps, std::memory_order_relaxed);
    }
  }

  int64_t num_rows() const { return num_rows_; }

  void Prefetch(int64_t row) const { __builtin_prefetch(&stamps_[row]); }

  Stamp Of(int64_t row) const { return Stamp{stamps_[row].load(std::memory_order_acquire)}; }

  // Locks the row if its stamp is still the same.
  bool TryLock(int64_t row, Stamp stamp) {
    return stamps_[row].compare_exchange_strong(stamp.bits, kLocked, std::memory_order_acquire,
                                                std::memory_order_relaxed);
  }

  // Waits for whoever has locked the row. Returns its stamp.
  Stamp Lock(int64_t row) {
    for (;; std::this_thread::yield()) {
      const Stamp stamp = Of(row);
      if (!stamp.is_locked() && TryLock(row, stamp)) return stamp;
    }
  }

  void Unlock(int64_t row, uint32_t step) {
    stamps_[row].store(step & kSteps, std::memory_order_release);
  }
  void UnlockResting(int64_t row) { stamps_[row].store(kResting, std::memory_order_release); }

 private:
  static constexpr int kUnusedBits = 2;
  static constexpr uint32_t kSteps = ~uint32_t{0} >> kUnusedBits;
  static constexpr uint32_t kResting = kSteps + 1;
  static constexpr uint32_t kLocked = kSteps + 2;

  struct Free {
    void operator()(std::atomic<uint32_t>* stamps) const { std::free(stamps); }
  };

  static std::atomic<uint32_t>* NewStamps(int64_t num_rows) {
    int64_t bytes = num_rows * static_cast<int64_t>(sizeof(std::atomic<uint32_t>));
    if (bytes >= kLargePageBytes) {
      bytes = (bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
    }
    return new (NewInLargePages(bytes)) std::atomic<uint32_t>[num_rows];
  }

  const int64_t num_rows_;
  const std::unique_ptr<std::atomic<uint32_t>[], Free> stamps_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_ROW_STAMPS_H_
