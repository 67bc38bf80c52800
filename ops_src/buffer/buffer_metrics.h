#ifndef GRAPH_OPT_BUFFER_BUFFER_METRICS_H_
#define GRAPH_OPT_BUFFER_BUFFER_METRICS_H_

#include <cstdint>

namespace graph_opt {

// What has happened in a buffer since it was created. Waiting times include those of calls that are
// still waiting.
struct BufferMetrics {
  int64_t capacity = 0;
  int64_t size = 0;
  int64_t put_count = 0;
  int64_t take_count = 0;
  int64_t dropped = 0;  // places at which nothing was put: batches skipped
  int64_t taken_bytes = 0;
  int64_t put_wait_micros = 0;   // the buffer was full
  int64_t take_wait_micros = 0;  // the buffer was empty
  int64_t put_waits = 0;
  int64_t take_waits = 0;
  int64_t pending_takes = 0;
  int64_t pending_puts = 0;
  int64_t closed = 0;
  int64_t cancelled = 0;
  int64_t errors = 0;         // of what was put
  int64_t largest_bytes = 0;  // of an element taken since the last Resume
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_BUFFER_METRICS_H_
