#ifndef GRAPH_OPT_DYNAMIC_ROW_CLOCK_H_
#define GRAPH_OPT_DYNAMIC_ROW_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace graph_opt {

// When rows of a table were looked up and written, from what is stamped on them anyway: tickets of
// lookups, of which the clock notes the times, and in place of the step of the last update its
// time. Thread-safe.
class RowClock {
 public:
  // What rows that were looked up, or written, after some moment are stamped with, at least.
  struct Since {
    uint32_t read;
    int32_t written;
  };

  // `age`: as if it had been made so many microseconds ago.
  explicit RowClock(int64_t age = 0);

  // What is written now is stamped with. Stamps are in units of a microsecond, until they run out;
  // then units become twice as long.
  int32_t Stamp() const { return StampOf(Elapsed(), shift()); }
  bool must_halve_stamps() const { return Elapsed() >> shift() > kMostStamps / 4 * 3; }
  // To be told when those of all rows are halved.
  void HalveStamps() { ++shift_; }

  // Stamps as microseconds since 1970, and back; -1 remains that. `shift` was that of the stamp.
  int shift() const { return shift_; }
  int64_t TimeOf(int32_t stamp, int shift) const;
  int32_t StampAt(int64_t time) const;

  // A lookup begins, and stamps rows with this ticket.
  void NoteLookup(uint32_t ticket);
  // Tickets are this much lower from now on.
  void LowerTickets(uint32_t by);

  // Of a moment in microseconds since 1970. May count lookups and updates that were shortly before
  // it, all the less the later it was, and leaves none out.
  Since After(int64_t time) const;

 private:
  struct Lookup {
    uint32_t ticket;
    int64_t elapsed;
  };
  static constexpr int32_t kMostStamps = (1 << 30) - 2;

  int64_t Elapsed() const;  // since it was made
  static int32_t StampOf(int64_t elapsed, int shift);
  void ThinOut();  // under mutex_

  const int64_t begin_;  // since 1970
  std::atomic<int> shift_{0};
  mutable std::atomic<int64_t> latest_{0};  // elapsed; a system's clock may be set back
  mutable std::mutex mutex_;
  std::vector<Lookup> lookups_;  // ascending, fewer of long ago; guarded by mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_CLOCK_H_
