#ifndef GRAPH_OPT_BUFFER_BUFFER_STATUS_H_
#define GRAPH_OPT_BUFFER_BUFFER_STATUS_H_

#include <string>
#include <utility>

namespace graph_opt {

// The outcome of a buffer call. Codes are TensorFlow's
// (tensorflow/core/protobuf/error_codes.proto), so that an error handed to BoundedBuffer::Cancel
// comes out again as it went in.
struct BufferStatus {
  static constexpr int kOk = 0;
  static constexpr int kCancelled = 1;
  static constexpr int kDeadlineExceeded = 4;
  static constexpr int kFailedPrecondition = 9;
  static constexpr int kOutOfRange = 11;

  BufferStatus() = default;
  BufferStatus(int code, std::string message) : code(code), message(std::move(message)) {}

  bool ok() const { return code == kOk; }

  int code = kOk;
  std::string message;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_BUFFER_BUFFER_STATUS_H_
