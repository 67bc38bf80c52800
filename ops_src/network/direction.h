// One way of one connection: what was read from one socket and waits to be written to another.
#ifndef GRAPH_OPT_NETWORK_DIRECTION_H_
#define GRAPH_OPT_NETWORK_DIRECTION_H_

#include <atomic>
#include <cstdint>

#include "network/call_counter.h"
#include "network/chunk_queue.h"
#include "network/clock.h"
#include "network/link.h"

namespace graph_opt {

// What has passed; may be read from any thread.
struct Passed {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> bytes{0};
};

class Direction {
 public:
  // Both sockets must not block. Calls can be counted where the source is the caller. What is
  // pointed to must outlive this.
  Direction(int source, int sink, bool counts_calls, Link* link, BlockPool* pool, Passed* passed)
      : source_(source),
        sink_(sink),
        counts_calls_(counts_calls),
        link_(link),
        passed_(passed),
        queue_(pool) {}

  // What epoll tells of the source and the sink, once for each change. A source that has ended, or
  // failed, tells of nothing more.
  void SourceIsReadable(bool has_ended) {
    may_read_ = true;
    source_has_ended_ |= has_ended;
  }
  void SinkIsWritable() { may_write_ = true; }

  // Reads what has come, and writes what is due.
  void Run(int64_t now);

  // When it must run although nothing has changed.
  int64_t next_run() const;

  // Whether it must run as soon as something changes, and not only when the next bytes are due:
  // many bytes would stop for want of room, a sink has none, or what comes is not stamped.
  bool must_hear() const { return must_hear_ && !is_finished_; }

  // Whether all has been written, and the sink told so.
  bool is_finished() const { return is_finished_; }

 private:
  void Read();
  void Count(const Pieces& pieces, size_t bytes);
  void Write(int64_t now);
  void Finish();

  const int source_;
  const int sink_;
  const bool counts_calls_;
  Link* const link_;
  Passed* const passed_;
  CallCounter counter_;
  ChunkQueue queue_;
  bool may_read_ = true;
  bool may_write_ = true;
  bool source_has_ended_ = false;
  bool is_stamped_ = true;
  bool must_hear_ = false;
  bool is_finished_ = false;
  int64_t last_arrival_ = 0;
  int64_t end_due_ = kNever;  // when the end of the stream may be passed on
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_DIRECTION_H_
