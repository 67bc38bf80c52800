#ifndef GRAPH_OPT_PACKED_NEW_ROWS_H_
#define GRAPH_OPT_PACKED_NEW_ROWS_H_

#include <cstdint>
#include <vector>

#include "lookup/refresh_bags.h"
#include "packed/row_request.h"

namespace graph_opt {

// Writes new values over rows that servers sent before, and notes which numbers they have among the
// packed tables (row_request.h).
class NewRows {
 public:
  // `tables` are what PackedTables() made of `sent`, whose memory may be written.
  NewRows(const PackedShards& shards, const std::vector<Table>& tables,
          const std::vector<SentRows>& sent);

  // Each value is that of the row at the same place among those that were asked of the shard.
  void Write(int shard, const std::vector<int64_t>& places, const std::vector<const char*>& values);

  // Of each table.
  const std::vector<ChangedRows>& changed() const { return changed_; }

 private:
  struct Shard {
    int table;
    int64_t first_number;
    char* rows;
  };

  const std::vector<Table>& tables_;
  std::vector<Shard> shards_;
  std::vector<ChangedRows> changed_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_PACKED_NEW_ROWS_H_
