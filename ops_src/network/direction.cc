#include "network/direction.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "network/arrival_time.h"

namespace graph_opt {
namespace {

constexpr ssize_t kManyBytes = 1 << 15;  // of which probably more are on their way

}  // namespace

void Direction::Run(int64_t now) {
  if (is_finished_) return;
  must_hear_ = false;
  if (may_read_ && end_due_ == kNever && link_->full_until() <= now) Read();
  if (may_write_) Write(now + link_->earliness());
  must_hear_ |= !may_write_ || !is_stamped_;
}

int64_t Direction::next_run() const {
  if (is_finished_) return kNever;
  int64_t next = kNever;
  if (may_read_ && end_due_ == kNever) next = link_->full_until();
  if (!may_write_) return next;
  return std::min(next, queue_.empty() ? end_due_ : queue_.next_due());
}

void Direction::Read() {
  Pieces room = queue_.Room(link_->chunk_bytes());
  char control[kStampBytes];
  msghdr message = {};
  message.msg_iov = room.at;
  message.msg_iovlen = room.count;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(source_, &message, 0);
  if (got > 0) {
    const int64_t arrival = ArrivalTime(&message);
    is_stamped_ = arrival != kNever;
    must_hear_ = got >= kManyBytes;
    last_arrival_ = std::max(last_arrival_, std::min(Now(), arrival));
    queue_.Add(got, link_->Due(got, last_arrival_));
    Count(room, got);
    // Less than there was room for: nothing is left, and epoll tells of more.
    may_read_ = source_has_ended_ || room.size() == static_cast<size_t>(got);
    return;
  }
  if (got < 0 && errno == EINTR) return;
  may_read_ = false;
  if (got == 0 || errno != EAGAIN) end_due_ = link_->Due(0, Now());
}

void Direction::Count(const Pieces& pieces, size_t bytes) {
  passed_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!counts_calls_) return;
  int calls = 0;
  for (int i = 0; i < pieces.count && bytes > 0; ++i) {
    const size_t size = std::min(bytes, pieces.at[i].iov_len);
    calls += counter_.Take(static_cast<const char*>(pieces.at[i].iov_base), size);
    bytes -= size;
  }
  passed_->calls.fetch_add(calls, std::memory_order_relaxed);
}

void Direction::Write(int64_t now) {
  while (!queue_.empty() && queue_.next_due() <= now) {
    Pieces due = queue_.Due(now);
    msghdr message = {};
    message.msg_iov = due.at;
    message.msg_iovlen = due.count;
    const ssize_t written = sendmsg(sink_, &message, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      may_write_ = false;
      return;
    }
    if (written < 0) return Finish();
    queue_.Drop(written);
  }
  if (queue_.empty() && end_due_ <= now) Finish();
}

void Direction::Finish() {
  queue_.Clear();
  is_finished_ = true;
  shutdown(sink_, SHUT_WR);  // fails where the peer has closed the connection already
}

}  // namespace graph_opt
