// What the compiler's headers use of glibc that 2.17 does not have. Portable libraries define it,
// and so need no newer glibc; there, they still use what it has.
#include "portable/newer_functions.h"

#include <dlfcn.h>

namespace graph_opt {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1000000000;

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec;
}

int64_t Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return Nanoseconds(now);
}

}  // namespace

int WaitByRealTime(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                   const timespec* deadline) {
  const int64_t until = Nanoseconds(*deadline) - Now(clock) + Now(CLOCK_REALTIME);
  timespec real_time;
  real_time.tv_sec = until / kNanosecondsPerSecond;
  real_time.tv_nsec = until % kNanosecondsPerSecond;
  return pthread_cond_timedwait(condition, mutex, &real_time);
}

}  // namespace graph_opt

extern "C" {

// Since 2.32: whether a process has one thread, which need not count references atomically.
char __libc_single_threaded = 0;

// Since 2.30.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
  using Wait = decltype(&pthread_cond_clockwait);
  static const Wait wait = reinterpret_cast<Wait>(dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  const Wait used = wait == nullptr ? &graph_opt::WaitByRealTime : wait;
  return used(condition, mutex, clock, deadline);
}

}  // extern "C"
