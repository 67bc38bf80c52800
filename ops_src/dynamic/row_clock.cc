#include "dynamic/row_clock.h"

#include <algorithm>
#include <chrono>

namespace graph_opt {
namespace {

constexpr size_t kMostLookups = 32768;
// One in so many of a lookup's age is how far apart from the next it is kept.
constexpr uint32_t kAgeOfApart = 1024;

int64_t Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

RowClock::RowClock(int64_t age) : begin_(Now() - age) {
  while (must_halve_stamps()) HalveStamps();
}

int64_t RowClock::Elapsed() const {
  const int64_t now = Now() - begin_;
  int64_t latest = latest_.load(std::memory_order_relaxed);
  while (now > latest && !latest_.compare_exchange_weak(latest, now, std::memory_order_relaxed)) {
  }
  return std::max(now, latest);
}

int32_t RowClock::StampOf(int64_t elapsed, int shift) {
  const int64_t most = kMostStamps;
  return static_cast<int32_t>(std::min(most, std::max<int64_t>(0, elapsed) >> shift));
}

int64_t RowClock::TimeOf(int32_t stamp, int shift) const {
  return stamp < 0 ? -1 : begin_ + (int64_t{stamp} << shift);
}

int32_t RowClock::StampAt(int64_t time) const {
  return time < 0 ? -1 : StampOf(time - begin_, shift());
}

void RowClock::NoteLookup(uint32_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!lookups_.empty() && ticket <= lookups_.back().ticket) return;  // noted with a later one
  if (lookups_.size() == kMostLookups) ThinOut();
  lookups_.push_back({ticket, Elapsed()});
}

void RowClock::ThinOut() {
  std::vector<Lookup> kept;  // from the last on
  for (auto lookup = lookups_.rbegin(); lookup != lookups_.rend(); ++lookup) {
    const uint32_t age = lookups_.back().ticket - lookup->ticket;
    const bool is_apart = kept.empty() || kept.back().ticket - lookup->ticket > age / kAgeOfApart;
    if (is_apart) kept.push_back(*lookup);
  }
  lookups_.assign(kept.rbegin(), kept.rend());
}

void RowClock::LowerTickets(uint32_t by) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_lost = [by](const Lookup& lookup) { return lookup.ticket <= by; };
  lookups_.erase(std::remove_if(lookups_.begin(), lookups_.end(), is_lost), lookups_.end());
  for (Lookup& lookup : lookups_) lookup.ticket -= by;
}

RowClock::Since RowClock::After(int64_t time) const {
  const int64_t elapsed = time - begin_;
  Since since = {1, -1};
  if (elapsed < 0) return since;
  since.written = StampOf(elapsed + 1, shift());
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto later = [](int64_t moment, const Lookup& lookup) { return moment < lookup.elapsed; };
  const auto next = std::upper_bound(lookups_.begin(), lookups_.end(), elapsed, later);
  if (next != lookups_.begin()) since.read = std::prev(next)->ticket + 1;
  return since;
}

}  // namespace graph_opt
