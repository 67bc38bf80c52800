#include "network/timed_wait.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "network/clock.h"

namespace graph_opt {
namespace {

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

timespec Timespec(int64_t nanoseconds) {
  timespec time;
  time.tv_sec = nanoseconds / kSecond;
  time.tv_nsec = nanoseconds % kSecond;
  return time;
}

}  // namespace

int WaitUntil(int epoll, int64_t time, epoll_event* events, int most) {
  const timespec left = Timespec(time == kNever ? 0 : std::max<int64_t>(0, time - Now()));
  const timespec* const timeout = time == kNever ? nullptr : &left;
  int count = syscall(kEpollPwait2, epoll, events, most, timeout, nullptr, 0);
  if (count < 0 && errno == ENOSYS) count = PollThenWait(epoll, timeout, events, most);
  return count < 0 && errno == EINTR ? 0 : count;
}

void SleepUntil(int64_t time) {
  const timespec until = Timespec(time);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace graph_opt
