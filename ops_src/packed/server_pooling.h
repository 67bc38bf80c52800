#ifndef GRAPH_OPT_PACKED_SERVER_POOLING_H_
#define GRAPH_OPT_PACKED_SERVER_POOLING_H_

#include <cstdint>
#include <mutex>
#include <vector>

namespace graph_opt {

// What the lookups of one table in a step are, and what they would send.
struct TableTraffic {
  bool can_pool = false;  // its server has all of its rows
  int64_t num_ids = 0;
  int64_t num_bags = 0;
  int64_t row_bytes = 0;
  int64_t num_weights = 0;
  int64_t bytes_per_id = 0;  // in packed bags
};

// Chooses what travels for a table: each row that is looked up once, and bags are pooled by the
// worker; or bags, and they are pooled by the server. With many ids in a bag, bags are fewer than
// different rows; with one id in a bag and some ids in many, rows are fewer.
//
// How many different rows ids name is known when they were counted, which is part of packing rows.
// So that is done in the first call and every now and then. Results are the same either way.
//
// kTogether chooses for all tables at once: their rows travel, or what is less for each. Batches of
// which only rows travel can be asked for ahead of their step and be exact (staged_rows.h), so it
// takes clearly fewer bytes to give that up. And it takes clearly more to go back, since batches
// that wait when the choice changes are read twice.
class ServerPooling {
 public:
  enum class Mode { kAuto, kNever, kAlways, kTogether };

  struct Choice {
    std::vector<bool> pools;  // of each table, whether its server does
    bool counts = false;      // whether to count the rows of those, too
  };

  explicit ServerPooling(Mode mode = Mode::kAuto) : mode_(mode) {}

  // Any thread may call it.
  Choice Choose(const std::vector<TableTraffic>& tables);

  // Tells how many different rows a table's ids were.
  void Learn(int table, const TableTraffic& traffic, int64_t num_rows);

 private:
  std::vector<bool> ChooseTogether(const std::vector<TableTraffic>& tables);

  const Mode mode_;
  std::mutex mutex_;
  int64_t calls_ = 0;                // guarded by mutex_
  std::vector<double> rows_per_id_;  // of each table; guarded by mutex_
  bool pools_together_ = false;      // the last choice; guarded by mutex_
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_SERVER_POOLING_H_
