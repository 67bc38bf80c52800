#ifndef GRAPH_OPT_PORTABLE_NEWER_FUNCTIONS_H_
#define GRAPH_OPT_PORTABLE_NEWER_FUNCTIONS_H_

#include <pthread.h>
#include <time.h>

#include <cstdint>

namespace graph_opt {

// `pthread_cond_clockwait` where there is none: as std::condition_variable did it until glibc 2.30,
// a deadline moves with the system's clock if that is set meanwhile.
int WaitByRealTime(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                   const timespec* deadline);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PORTABLE_NEWER_FUNCTIONS_H_
