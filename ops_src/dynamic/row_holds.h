#ifndef GRAPH_OPT_DYNAMIC_ROW_HOLDS_H_
#define GRAPH_OPT_DYNAMIC_ROW_HOLDS_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <set>

namespace graph_opt {

// Who holds rows of a table. Every lookup takes a ticket, and stamps it on the rows that it gives
// out; until its hold ends, a row with this stamp or a later one belongs to its key and stays where
// it is. Thread-safe.
class RowHolds : public std::enable_shared_from_this<RowHolds> {
 public:
  // The rows that a lookup gave out stay while this lives, which may be longer than the table.
  class Hold {
   public:
    ~Hold() { holds_->Release(ticket_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    uint32_t ticket() const { return ticket_; }

   private:
    friend class RowHolds;
    Hold(std::shared_ptr<RowHolds> holds, uint32_t ticket)
        : holds_(std::move(holds)), ticket_(ticket) {}

    const std::shared_ptr<RowHolds> holds_;
    const uint32_t ticket_;
  };

  static constexpr uint32_t kMostTickets = std::numeric_limits<uint32_t>::max();

  std::shared_ptr<Hold> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint32_t ticket = ++last_;
    live_.insert(ticket);
    oldest_ = *live_.begin();
    return std::shared_ptr<Hold>(new Hold(shared_from_this(), ticket));
  }

  // Rows stamped before this ticket are held by nobody.
  uint32_t Oldest() const { return oldest_; }

  // The last ticket that was taken.
  uint32_t Last() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }

  int64_t size() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(live_.size());
  }

 private:
  void Release(uint32_t ticket) {
    std::lock_guard<std::mutex> lock(mutex_);
    live_.erase(live_.find(ticket));
    oldest_ = live_.empty() ? kMostTickets : *live_.begin();
  }

  mutable std::mutex mutex_;
  uint32_t last_ = 0;             // guarded by mutex_
  std::multiset<uint32_t> live_;  // guarded by mutex_
  std::atomic<uint32_t> oldest_{kMostTickets};
};

typedef RowHolds::Hold Hold;

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_HOLDS_H_
