#ifndef GRAPH_OPT_DYNAMIC_FIRST_ERROR_H_
#define GRAPH_OPT_DYNAMIC_FIRST_ERROR_H_

#include <mutex>

#include "absl/status/status.h"

namespace graph_opt {

// Keeps the first of the errors that threads meet.
class FirstError {
 public:
  void Tell(const absl::Status& status) {
    if (status.ok()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }

 private:
  std::mutex mutex_;
  absl::Status status_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_FIRST_ERROR_H_
