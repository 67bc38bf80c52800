// Links, queues, stamps and counters of the network proxy.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "functors_testing.h"
#include "network/arrival_time.h"
#include "network/call_counter.h"
#include "network/chunk_queue.h"
#include "network/clock.h"
#include "network/link.h"

namespace graph_opt {
namespace {

// Two ends of a connection.
void Connect(int* ends) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  sockaddr* const any = reinterpret_cast<sockaddr*>(&address);
  Check(bind(listener, any, size) == 0 && listen(listener, 1) == 0, "listens");
  Check(getsockname(listener, any, &size) == 0, "has a port");
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  Check(connect(ends[0], any, size) == 0, "connects");
  ends[1] = accept(listener, nullptr, nullptr);
  close(listener);
}

void TestALinkDelays() {
  Link link(1e-3, 0);
  Check(link.Due(1 << 30, 5) == 1000005, "without a rate, the size does not matter");
  Check(link.full_until() <= 0, "and senders never wait");
  Check(Link(0, 0).Due(7, 5) <= 5, "without a delay either, at once");
  Check(Link(1e300, 1e-300).Due(7, 5) > 1000 * kSecond, "whatever the numbers");
}

void TestALinkSharesItsRate() {
  Link link(1e-3, 1e9);  // a byte a nanosecond
  Check(link.Due(500, 100) == 1000600, "the time on the wire, and the delay");
  Check(link.Due(500, 200) == 1001100, "behind what is on its way");
  Check(link.Due(500, 9000) == 1009500, "on a free wire");
  link.Due(60 * 1000 * 1000, 10000);
  Check(link.full_until() == 10 * 1000 * 1000 + 10000, "all but 50 ms have passed");
  Check(link.chunk_bytes() == 50000, "as much at once as passes in 50 us");
  Check(Link(0, 1e6).chunk_bytes() == 1 << 14, "but no tiny pieces");
}

std::string Taken(ChunkQueue* queue, int64_t now, size_t most) {
  const Pieces due = queue->Due(now);
  std::string taken;
  for (int i = 0; i < due.count; ++i) {
    taken.append(static_cast<const char*>(due.at[i].iov_base), due.at[i].iov_len);
  }
  taken.resize(std::min(taken.size(), most));
  queue->Drop(taken.size());
  return taken;
}

void Put(ChunkQueue* queue, const std::string& bytes, int64_t due) {
  const Pieces room = queue->Room(bytes.size());
  size_t position = 0;
  for (int i = 0; i < room.count; ++i) {
    std::memcpy(room.at[i].iov_base, bytes.data() + position, room.at[i].iov_len);
    position += room.at[i].iov_len;
  }
  Check(position == bytes.size(), "so much room as was asked for");
  queue->Add(bytes.size(), due);
}

std::string Text(size_t size, int seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + seed) % 251);
  return text;
}

void TestBytesLeaveInOrderWhenTheyAreDue() {
  BlockPool pool;
  ChunkQueue queue(&pool);
  Put(&queue, "ab", 10);
  Put(&queue, "cd", 10);
  Put(&queue, "ef", 20);
  Check(Taken(&queue, 9, 100).empty() && queue.next_due() == 10, "none too early");
  Check(Taken(&queue, 10, 3) == "abc" && queue.next_due() == 10, "the rest of a piece stays");
  Check(Taken(&queue, 10, 100) == "d" && queue.next_due() == 20, "and is due as before");
  Check(Taken(&queue, 30, 100) == "ef" && queue.empty(), "all");
}

// Whatever the sizes, across the ends of blocks.
void TestAStreamIsWholeHoweverItIsCut() {
  BlockPool pool;
  ChunkQueue queue(&pool);
  const std::vector<size_t> sizes = {1, kBlockBytes - 2, 1, 7, kBlockBytes, 3 * kBlockBytes + 5, 9};
  const std::vector<size_t> most = {kBlockBytes + 3, 11, 5 * kBlockBytes};
  for (const size_t taken_at_once : most) {
    std::string sent;
    std::string received;
    for (size_t i = 0; i < 3 * sizes.size(); ++i) {
      const std::string bytes = Text(sizes[i % sizes.size()], i);
      Put(&queue, bytes, i);
      sent += bytes;
      received += Taken(&queue, i, taken_at_once);
    }
    while (!queue.empty()) received += Taken(&queue, 1000, std::max(taken_at_once, kBlockBytes));
    Check(received == sent, "the same bytes");
  }
}

// However late bytes are read, and even if this thread is interrupted then.
void TestArrivalsAreStamped() {
  int ends[2];
  Connect(ends);
  StampArrivals(ends[1]);
  int64_t sent;
  int64_t arrival;
  do {
    Check(write(ends[0], "x", 1) == 1, "sent");
    sent = Now();
    while (Now() < sent + kMillisecond) {
    }
    char data;
    iovec place = {&data, 1};
    char control[kStampBytes];
    msghdr message = {};
    message.msg_iov = &place;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    Check(recvmsg(ends[1], &message, 0) == 1, "received");
    arrival = ArrivalTime(&message);
  } while (arrival > sent);
  Check(arrival > sent - kSecond, "not just any time");
  for (const int end : ends) close(end);
}

void TestCallsAreCountedHoweverTheStreamIsCut() {
  std::string stream(24, 'P');
  const std::vector<std::pair<int, int>> frames = {{4, 0}, {37, 1}, {300, 0},
                                                   {5, 1}, {0, 8},  {12, 1}};
  for (const auto& frame : frames) {  // length and type
    const char header[] = {0, char(frame.first >> 8), char(frame.first), char(frame.second)};
    stream.append(header, 4).append(5, '\0').append(frame.first, '\1');
  }
  for (const size_t size : {size_t{1}, size_t{7}, size_t{9}, stream.size()}) {
    CallCounter counter;
    int calls = 0;
    for (size_t start = 0; start < stream.size(); start += size) {
      calls += counter.Take(&stream[start], std::min(size, stream.size() - start));
    }
    Check(calls == 3, "three frames with headers");
  }
}

}  // namespace
}  // namespace graph_opt

int main() {
  graph_opt::TestALinkDelays();
  graph_opt::TestALinkSharesItsRate();
  graph_opt::TestBytesLeaveInOrderWhenTheyAreDue();
  graph_opt::TestAStreamIsWholeHoweverItIsCut();
  graph_opt::TestArrivalsAreStamped();
  graph_opt::TestCallsAreCountedHoweverTheStreamIsCut();
  return 0;
}
