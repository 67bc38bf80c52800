// When bytes arrived, however late they are read: Linux stamps them.
#ifndef GRAPH_OPT_NETWORK_ARRIVAL_TIME_H_
#define GRAPH_OPT_NETWORK_ARRIVAL_TIME_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <ctime>

namespace graph_opt {

constexpr size_t kStampBytes = CMSG_SPACE(sizeof(timespec));

// Has recvmsg tell of a socket when the last of the bytes that it returns arrived, in kStampBytes
// of control data. Some time may pass until it does; old kernels never do.
void StampArrivals(int socket);

// The time of `Now` that a message was stamped with; kNever without a stamp.
int64_t ArrivalTime(msghdr* message);

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_ARRIVAL_TIME_H_
