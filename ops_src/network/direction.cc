#include "network/direction.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace graph_opt {

void Direction::Run(int64_t now) {
  if (is_finished_) return;
  if (may_read_ && end_due_ == kNever && link_->full_until() <= now) Read(now);
  if (may_write_) Write(now);
}

int64_t Direction::next_run() const {
  if (is_finished_) return kNever;
  int64_t next = kNever;
  if (may_read_ && end_due_ == kNever) next = link_->full_until();
  if (!may_write_) return next;
  return std::min(next, queue_.empty() ? end_due_ : queue_.next_due());
}

void Direction::Read(int64_t now) {
  const Pieces room = queue_.Room(link_->chunk_bytes());
  ssize_t got;
  do {
    got = readv(source_, room.at, room.count);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    Keep(room, got, now);
    // Less than there was room for: nothing is left, and epoll tells of more.
    may_read_ = source_has_ended_ || room.size() == static_cast<size_t>(got);
    return;
  }
  may_read_ = false;
  if (got == 0 || errno != EAGAIN) end_due_ = link_->Due(0, now);
}

void Direction::Keep(const Pieces& room, size_t bytes, int64_t now) {
  queue_.Add(bytes, link_->Due(bytes, now));
  passed_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!from_caller_) return;
  int calls = 0;
  for (int i = 0; i < room.count && bytes > 0; ++i) {
    const size_t size = std::min(bytes, room.at[i].iov_len);
    calls += counter_.Take(static_cast<const char*>(room.at[i].iov_base), size);
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
