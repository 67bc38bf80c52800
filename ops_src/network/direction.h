// One way of one connection: what was read from one socket and waits to be written to another.
#ifndef GRAPH_OPT_NETWORK_DIRECTION_H_
#define GRAPH_OPT_NETWORK_DIRECTION_H_

#include <atomic>
#include <cstdint>
#include <limits>

#include "network/call_counter.h"
#include "network/chunk_queue.h"
#include "network/link.h"

namespace graph_opt {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// What has passed; may be read from any thread.
struct Passed {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> bytes{0};
};

class Direction {
 public:
  // Both sockets must not block. Calls are counted if the source is the caller. What is pointed to
  // must outlive this.
  Direction(int source, int sink, bool from_caller, Link* link, BlockPool* pool, Passed* passed)
      : source_(source),
        sink_(sink),
        from_caller_(from_caller),
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

  // Whether all has been written, and the sink told so.
  bool is_finished() const { return is_finished_; }

 private:
  void Read(int64_t now);
  void Keep(const Pieces& room, size_t bytes, int64_t now);
  void Write(int64_t now);
  void Finish();

  const int source_;
  const int sink_;
  const bool from_caller_;
  Link* const link_;
  Passed* const passed_;
  CallCounter counter_;
  ChunkQueue queue_;
  bool may_read_ = true;
  bool may_write_ = true;
  bool source_has_ended_ = false;
  bool is_finished_ = false;
  int64_t end_due_ = kNever;  // when the end of the stream may be passed on
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_DIRECTION_H_
