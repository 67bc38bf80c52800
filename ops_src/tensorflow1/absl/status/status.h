#ifndef GRAPH_OPT_TENSORFLOW1_ABSL_STATUS_STATUS_H_
#define GRAPH_OPT_TENSORFLOW1_ABSL_STATUS_STATUS_H_

#include <string>

#include "absl/strings/string_view.h"

// The part of `absl::Status` that graph_opt uses: the Abseil of TensorFlow 1.15 is older.

namespace absl {

// Google's canonical codes, whose numbers are those of `tensorflow::error::Code`, too.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

class Status {
 public:
  Status() = default;
  Status(StatusCode code, string_view message) : code_(code), message_(message) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  string_view message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return Status(); }

inline Status CancelledError(string_view message) {
  return Status(StatusCode::kCancelled, message);
}

inline Status DataLossError(string_view message) { return Status(StatusCode::kDataLoss, message); }

inline Status DeadlineExceededError(string_view message) {
  return Status(StatusCode::kDeadlineExceeded, message);
}

inline Status FailedPreconditionError(string_view message) {
  return Status(StatusCode::kFailedPrecondition, message);
}

inline Status InternalError(string_view message) { return Status(StatusCode::kInternal, message); }

inline Status InvalidArgumentError(string_view message) {
  return Status(StatusCode::kInvalidArgument, message);
}

inline Status OutOfRangeError(string_view message) {
  return Status(StatusCode::kOutOfRange, message);
}

inline Status ResourceExhaustedError(string_view message) {
  return Status(StatusCode::kResourceExhausted, message);
}

inline Status UnknownError(string_view message) { return Status(StatusCode::kUnknown, message); }

}  // namespace absl

#endif  // GRAPH_OPT_TENSORFLOW1_ABSL_STATUS_STATUS_H_
