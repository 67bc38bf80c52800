// One way of a network: latency, and a limit of bandwidth.
#ifndef GRAPH_OPT_NETWORK_LINK_H_
#define GRAPH_OPT_NETWORK_LINK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "network/clock.h"

namespace graph_opt {

// The way between a target and all that talk to it, or the way back.
class Link {
 public:
  // Without a rate (0), what is sent waits for the delay alone.
  Link(double delay_seconds, double bytes_per_second)
      : delay_(Nanoseconds(delay_seconds * kSecond)), rate_(bytes_per_second / kSecond) {}

  int64_t delay() const { return delay_; }
  // Of what is sent from now on, which nevertheless arrives after what was sent before.
  void set_delay(double seconds) { delay_ = Nanoseconds(seconds * kSecond); }

  // So much too early may bytes be written, together with others that are due: a wake-up is too
  // late by as much.
  int64_t earliness() const { return std::min(delay_ / 40, int64_t{kMostEarliness}); }

  // How much is read at once: with a rate as little as passes in a moment, so that connections
  // share it.
  size_t chunk_bytes() const {
    if (rate_ == 0) return kChunkBytes;
    const size_t in_a_moment = static_cast<size_t>(std::min(rate_ * kMoment, double{kChunkBytes}));
    return std::max(size_t{kLeastChunkBytes}, in_a_moment);
  }

  // When that many bytes, which are sent now, have arrived: they take their time on the wire behind
  // all others, and the delay after that.
  int64_t Due(size_t bytes, int64_t now) {
    if (rate_ == 0) return delay_ == 0 ? kAtOnce : now + delay_;
    free_at_ = std::max(now, free_at_) + Nanoseconds(bytes / rate_);
    return free_at_ + delay_;
  }

  // Until when so much is on its way that senders must wait.
  int64_t full_until() const { return free_at_ - kMostBacklog; }

 private:
  // Those of more than thirty years would leave the numbers.
  static int64_t Nanoseconds(double time) { return static_cast<int64_t>(std::min(time, 1e18)); }

  static constexpr int64_t kAtOnce = 0;
  static constexpr int64_t kMostEarliness = 25 * 1000;
  static constexpr size_t kChunkBytes = 1 << 18;
  static constexpr size_t kLeastChunkBytes = 1 << 14;  // 1.3 ms at 0.1 Gbit/s
  static constexpr double kMoment = 50e3;
  static constexpr int64_t kMostBacklog = 50 * kMillisecond;

  int64_t delay_;
  const double rate_;  // bytes a nanosecond
  int64_t free_at_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_LINK_H_
