#include "network/arrival_time.h"

#include <cstring>

#include "network/clock.h"

namespace graph_opt {

void StampArrivals(int socket) {
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

int64_t ArrivalTime(msghdr* message) {
  const cmsghdr* const stamp = CMSG_FIRSTHDR(message);
  if (stamp == nullptr || stamp->cmsg_level != SOL_SOCKET || stamp->cmsg_type != SCM_TIMESTAMPNS) {
    return kNever;
  }
  timespec arrival;
  std::memcpy(&arrival, CMSG_DATA(stamp), sizeof arrival);
  const int64_t age = TimeOf(CLOCK_REALTIME) - Nanoseconds(arrival);
  return Now() - age;
}

}  // namespace graph_opt
