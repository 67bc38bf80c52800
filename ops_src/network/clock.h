// Times in nanoseconds.
#ifndef GRAPH_OPT_NETWORK_CLOCK_H_
#define GRAPH_OPT_NETWORK_CLOCK_H_

#include <cstdint>
#include <ctime>
#include <limits>

namespace graph_opt {

constexpr int64_t kMillisecond = 1000 * 1000;
constexpr int64_t kSecond = 1000 * kMillisecond;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

inline int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

inline int64_t TimeOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return Nanoseconds(now);
}

// The time of a clock that only goes forward.
inline int64_t Now() { return TimeOf(CLOCK_MONOTONIC); }

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_CLOCK_H_
