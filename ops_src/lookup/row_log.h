#ifndef GRAPH_OPT_LOOKUP_ROW_LOG_H_
#define GRAPH_OPT_LOOKUP_ROW_LOG_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "lookup/bags.h"
#include "lookup/row_set.h"
#include "lookup/table_shards.h"

namespace graph_opt {

// The rows that the last updates of a table, or of a shard of one, have written. Who reads rows
// ahead takes the position first, and later asks which rows have been written since:
//
//   reader    position, read rows ................................ Since(position): read these
//   again update               write rows, Append
//
// An update is appended once it has written, so one that a read overlaps counts as later.
class RowLog {
 public:
  // The number of updates so far, for a reader who is about to read rows.
  int64_t TakePosition();

  // Whether a reader may ask for the rows of the next update, while a log keeps so many updates. If
  // not, there is no need to tell which rows these are.
  bool IsAwaited(int64_t kept) const;

  // Adds an update, and forgets all but the last `kept`.
  void Append(RowSet rows, int64_t kept);

  // Adds a change of any rows.
  void AppendAll() { Append(RowSet::OfAll(), 1); }

  // The rows that more than `may_miss` of the updates after a position have written; all rows, if
  // not all of these updates are kept, or one may have written any.
  RowSet Since(int64_t position, int64_t may_miss = 0) const;

 private:
  mutable std::mutex mutex_;
  int64_t position_ = 0;
  int64_t last_taken_ = -1;  // the latest position that a reader has; -1: there is none
  std::deque<RowSet> last_;  // of the updates before position_
};

// The rows that an update of these bags writes, for each shard.
std::vector<RowSet> RowsOf(const TableShards& shards, const std::vector<const Bags*>& lookups);

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_ROW_LOG_H_
