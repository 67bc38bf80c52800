// Waits to the nanosecond, with and without epoll.
#ifndef GRAPH_OPT_NETWORK_TIMED_WAIT_H_
#define GRAPH_OPT_NETWORK_TIMED_WAIT_H_

#include <sys/epoll.h>

#include <cstdint>

namespace graph_opt {

// As epoll_wait, until that time of `Now`. A signal is no event.
int WaitUntil(int epoll, int64_t time, epoll_event* events, int most);

// Until that time, or a signal.
void SleepUntil(int64_t time);

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_TIMED_WAIT_H_
