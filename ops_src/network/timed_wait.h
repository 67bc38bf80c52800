// Waits for epoll, to the nanosecond.
#ifndef GRAPH_OPT_NETWORK_TIMED_WAIT_H_
#define GRAPH_OPT_NETWORK_TIMED_WAIT_H_

#include <sys/epoll.h>

#include <cstdint>

namespace graph_opt {

// The time of a clock that only goes forward.
int64_t Now();

// As epoll_wait, until that time of `Now`. A signal is no event.
int WaitUntil(int epoll, int64_t time, epoll_event* events, int most);

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_TIMED_WAIT_H_
