#ifndef GRAPH_OPT_PAGES_MOVING_TABLES_H_
#define GRAPH_OPT_PAGES_MOVING_TABLES_H_

#include <cstdint>
#include <mutex>
#include <vector>

namespace graph_opt {

// Has the memory of tables that is in use moved to large pages: by a thread of low priority, which
// lives while there is memory to move. Any thread may call.
class MovingTables {
 public:
  struct Memory {
    const char* data;
    int64_t bytes;
  };

  // The tables as they are now. Does next to nothing for those that are where they were, and as
  // large.
  void Move(const std::vector<Memory>& tables);

 private:
  std::mutex mutex_;
  std::vector<Memory> known_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PAGES_MOVING_TABLES_H_
