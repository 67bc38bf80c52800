// Counts the calls of gRPC in what is sent over one connection.
//
// gRPC opens a stream of HTTP/2 for each call, with one HEADERS frame from the caller. A connection
// starts with a preface of 24 bytes; a frame has a header of 9 bytes, of which the first three are
// the length of what follows it, and the fourth is its type (RFC 9113, sections 3.4 and 4.1).
#ifndef GRAPH_OPT_NETWORK_CALL_COUNTER_H_
#define GRAPH_OPT_NETWORK_CALL_COUNTER_H_

#include <cstddef>
#include <cstdint>

namespace graph_opt {

class CallCounter {
 public:
  // Reads on in the stream, however it is cut; returns how many calls begin in these bytes.
  int Take(const char* data, size_t size);

 private:
  static constexpr size_t kPrefaceBytes = 24;
  static constexpr size_t kHeaderBytes = 9;

  size_t skipped_ = kPrefaceBytes;  // still to come before the next header
  size_t known_ = 0;                // bytes of the header
  unsigned char header_[kHeaderBytes];
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_NETWORK_CALL_COUNTER_H_
