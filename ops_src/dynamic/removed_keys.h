#ifndef GRAPH_OPT_DYNAMIC_REMOVED_KEYS_H_
#define GRAPH_OPT_DYNAMIC_REMOVED_KEYS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace graph_opt {

// Which keys have lost their rows since a checkpoint. Thread-safe.
class RemovedKeys {
 public:
  // A checkpoint is about to be written. Keys that were noted before stay noted until it is.
  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    before_.insert(since_.begin(), since_.end());
    since_.clear();
    is_tracking_ = true;
  }
  // The checkpoint is written.
  void Commit() {
    const std::lock_guard<std::mutex> lock(mutex_);
    before_.clear();
  }
  // There is no checkpoint any more that keys could be removed since.
  void Stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_tracking_ = false;
    before_.clear();
    since_.clear();
  }

  bool is_tracking() const { return is_tracking_; }

  void Note(int64_t key) {
    if (!is_tracking_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    since_.insert(key);
  }

  std::vector<int64_t> keys() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<int64_t> keys(since_.begin(), since_.end());
    for (int64_t key : before_) {
      if (since_.count(key) == 0) keys.push_back(key);
    }
    return keys;
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> is_tracking_{false};
  absl::flat_hash_set<int64_t> before_;
  absl::flat_hash_set<int64_t> since_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_REMOVED_KEYS_H_
