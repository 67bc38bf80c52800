#ifndef GRAPH_OPT_BUFFER_TICKET_LINE_H_
#define GRAPH_OPT_BUFFER_TICKET_LINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "buffer/deadline_timer.h"

namespace graph_opt {

class Ticket;

// The order in which one buffer handed its elements out, as far as it still matters downstream.
//
// Every take issues the next ticket. A ticket is open until a put of the downstream buffer spends
// it or its last reference dies (the step failed: its batch is skipped).
//
//   issued      0   1   2   3   4        UnresolvedBefore(4) = 2: batches 1 and 2 are on their way
//   state       x   o   o   x   o        x resolved, o open
class TicketLine : public std::enable_shared_from_this<TicketLine> {
 public:
  // Hears that tickets of a line were resolved by others. Called without any lock held.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnTicketsResolved() = 0;
  };

  std::shared_ptr<Ticket> Issue();

  // Number of open tickets issued before `sequence`.
  size_t UnresolvedBefore(uint64_t sequence) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::lower_bound(open_.begin(), open_.end(), sequence) - open_.begin();
  }

  bool IsOpen(uint64_t sequence) const {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::binary_search(open_.begin(), open_.end(), sequence);
  }

  // A put spent the ticket. True: other listeners than the caller must hear of it (NotifyExcept).
  bool Spend(uint64_t sequence) {
    std::lock_guard<std::mutex> lock(mutex_);
    return Erase(sequence) && listeners_.size() > 1;
  }

  // Resolves all tickets and those still to come: after a resume the old order binds nobody.
  void Abandon() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_.clear();
      abandoned_ = true;
    }
    NotifyExcept(nullptr);
  }

  bool abandoned() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return abandoned_;
  }

  // Tickets that died unspent, as long as somebody listened or starts to.
  int64_t dropped() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return dropped_;
  }

  void AddListener(std::weak_ptr<Listener> listener) {
    std::lock_guard<std::mutex> lock(mutex_);
    listeners_.push_back(std::move(listener));
  }

  void NotifyExcept(const Listener* caller) {
    for (const std::shared_ptr<Listener>& listener : Listeners()) {
      if (listener.get() != caller) listener->OnTicketsResolved();
    }
  }

 private:
  friend class Ticket;

  // Called by the last reference of a ticket, wherever that dies: perhaps in the executor, under
  // its locks. So the listeners are told from the timer's thread.
  void Drop(uint64_t sequence) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!Erase(sequence)) return;
      ++dropped_;
      if (listeners_.empty()) return;
    }
    std::weak_ptr<TicketLine> line = shared_from_this();
    DeadlineTimer::Process().RunSoon([line] {
      if (std::shared_ptr<TicketLine> alive = line.lock()) alive->NotifyExcept(nullptr);
    });
  }

  bool Erase(uint64_t sequence) {
    auto found = std::lower_bound(open_.begin(), open_.end(), sequence);
    if (found == open_.end() || *found != sequence) return false;
    open_.erase(found);
    return true;
  }

  std::vector<std::shared_ptr<Listener>> Listeners() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<Listener>> alive;
    for (const std::weak_ptr<Listener>& listener : listeners_) {
      if (std::shared_ptr<Listener> locked = listener.lock()) alive.push_back(std::move(locked));
    }
    return alive;
  }

  mutable std::mutex mutex_;
  std::vector<uint64_t> open_;  // ascending; as long as batches are under way, so short
  std::vector<std::weak_ptr<Listener>> listeners_;
  uint64_t next_ = 0;
  int64_t dropped_ = 0;
  bool abandoned_ = false;
};

// A place in a TicketLine. Shared by whatever carries it through a step.
class Ticket {
 public:
  Ticket(std::shared_ptr<TicketLine> line, uint64_t sequence)
      : line_(std::move(line)), sequence_(sequence) {}
  ~Ticket() { line_->Drop(sequence_); }

  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  const std::shared_ptr<TicketLine>& line() const { return line_; }
  uint64_t sequence() const { return sequence_; }
  bool IsOpen() const { return line_->IsOpen(sequence_); }

 private:
  const std::shared_ptr<TicketLine> line_;
  const uint64_t sequence_;
};

inline std::shared_ptr<Ticket> TicketLine::Issue() {
  uint64_t sequence;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    sequence = next_++;
    if (!abandoned_) open_.push_back(sequence);
  }
  return std::make_shared<Ticket>(shared_from_this(), sequence);
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_TICKET_LINE_H_
