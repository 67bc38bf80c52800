#include "threads/thread_priority.h"

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>

namespace graph_opt {

int LowerThread(int priority) {
  if (priority == 0) return 0;
#if defined(__linux__)
  if (priority == kIdlePriority) {
    sched_param none = {};
    return sched_setscheduler(0, SCHED_IDLE, &none) == 0 ? 0 : errno;
  }
  // Below the process, whose own value may not be 0; 19 is the lowest there is.
  const int below = std::min(19, getpriority(PRIO_PROCESS, getpid()) + priority);
  return setpriority(PRIO_PROCESS, 0, below) == 0 ? 0 : errno;  // of this thread alone
#else
  return ENOSYS;
#endif
}

}  // namespace graph_opt
