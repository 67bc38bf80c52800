#ifndef GRAPH_OPT_DYNAMIC_ROW_HOLDS_H_
#define GRAPH_OPT_DYNAMIC_ROW_HOLDS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace graph_opt {

// Who holds rows of a table. Every lookup takes a ticket, and stamps it on the rows that it gives
// out; until its hold ends, a row with this stamp or a later one belongs to its key and stays where
// it is. Thread-safe.
class RowHolds : public std::enable_shared_from_this<RowHolds> {
 public:
  // The rows that a lookup gave out stay while this lives, which may be longer than the table.
  class Hold {
   public:
    ~Hold() { holds_->Release(lookup_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    uint32_t ticket() const { return ticket_; }

   private:
    friend class RowHolds;
    Hold(std::shared_ptr<RowHolds> holds, int64_t lookup, uint32_t ticket)
        : holds_(std::move(holds)), lookup_(lookup), ticket_(ticket) {}

    const std::shared_ptr<RowHolds> holds_;
    const int64_t lookup_;  // counted from the first on
    const uint32_t ticket_;
  };

  // Above all tickets.
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  // How much lower tickets get when they begin again.
  static constexpr uint32_t kStep = uint32_t{1} << 31;

  std::shared_ptr<Hold> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++last_;
    live_.insert(last_);
    Update();
    return std::shared_ptr<Hold>(new Hold(shared_from_this(), last_, TicketOf(last_)));
  }

  // Rows stamped before this ticket are held by nobody.
  uint32_t Oldest() const { return oldest_; }

  // The last ticket that was taken.
  uint32_t Last() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return TicketOf(last_);
  }

  int64_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(live_.size());
  }

  // Whether tickets run out soon. Then all stamps must be lowered, and this told.
  bool must_begin_again() const { return must_begin_again_; }
  void BeginAgain() {
    const std::lock_guard<std::mutex> lock(mutex_);
    lowered_by_ += kStep;
    Update();
  }
  // What a stamp is after tickets began again. Those of long ago become equal.
  static uint32_t Lowered(uint32_t ticket) { return ticket > kStep ? ticket - kStep : 1; }

  // As if so many lookups had been.
  void Skip(int64_t lookups) {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_ += lookups;
    Update();
  }

 private:
  static constexpr uint32_t kMostTickets = kNone - (uint32_t{1} << 20);

  uint32_t TicketOf(int64_t lookup) const {
    return static_cast<uint32_t>(std::max<int64_t>(1, lookup - lowered_by_));
  }
  void Release(int64_t lookup) {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.erase(lookup);
    Update();
  }
  void Update() {
    oldest_ = live_.empty() ? kNone : TicketOf(*live_.begin());
    must_begin_again_ = TicketOf(last_) > kMostTickets;
  }

  mutable std::mutex mutex_;
  int64_t last_ = 0;        // guarded by mutex_
  int64_t lowered_by_ = 0;  // guarded by mutex_
  std::set<int64_t> live_;  // guarded by mutex_
  std::atomic<uint32_t> oldest_{kNone};
  std::atomic<bool> must_begin_again_{false};
};

typedef RowHolds::Hold Hold;

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_HOLDS_H_
