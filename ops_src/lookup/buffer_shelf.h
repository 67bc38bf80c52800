#ifndef GRAPH_OPT_LOOKUP_BUFFER_SHELF_H_
#define GRAPH_OPT_LOOKUP_BUFFER_SHELF_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace graph_opt {

// Buffers that kernel calls leave for the next ones. Calls may run in parallel.
template <typename Buffers>
class BufferShelf {
 public:
  std::unique_ptr<Buffers> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return std::unique_ptr<Buffers>(new Buffers);
    std::unique_ptr<Buffers> buffers = std::move(free_.back());
    free_.pop_back();
    return buffers;
  }

  void PutBack(std::unique_ptr<Buffers> buffers) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(buffers));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffers>> free_;  // guarded by mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_BUFFER_SHELF_H_
