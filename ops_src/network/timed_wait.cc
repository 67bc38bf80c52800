#include "network/timed_wait.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>

namespace graph_opt {
namespace {

constexpr int64_t kNanoseconds = 1000 * 1000 * 1000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
#ifdef SYS_epoll_pwait2
constexpr long kEpollPwait2 = SYS_epoll_pwait2;
#else
constexpr long kEpollPwait2 = 441;  // on all processors alike
#endif

// Without epoll_pwait2, which Linux has since 5.11.
int PollThenWait(int epoll, const timespec* timeout, epoll_event* events, int most) {
  pollfd polled = {epoll, POLLIN, 0};
  const int ready = ppoll(&polled, 1, timeout, nullptr);
  return ready > 0 ? epoll_wait(epoll, events, most, 0) : ready;
}

}  // namespace

int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNanoseconds + now.tv_nsec;
}

int WaitUntil(int epoll, int64_t time, epoll_event* events, int most) {
  timespec left = {};
  if (time != kNever) {
    const int64_t nanoseconds = std::max<int64_t>(0, time - Now());
    left.tv_sec = nanoseconds / kNanoseconds;
    left.tv_nsec = nanoseconds % kNanoseconds;
  }
  const timespec* const timeout = time == kNever ? nullptr : &left;
  int count = syscall(kEpollPwait2, epoll, events, most, timeout, nullptr, 0);
  if (count < 0 && errno == ENOSYS) count = PollThenWait(epoll, timeout, events, most);
  return count < 0 && errno == EINTR ? 0 : count;
}

}  // namespace graph_opt
