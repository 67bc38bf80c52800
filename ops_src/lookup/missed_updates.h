#ifndef GRAPH_OPT_LOOKUP_MISSED_UPDATES_H_
#define GRAPH_OPT_LOOKUP_MISSED_UPDATES_H_

#include <cstdint>
#include <vector>

#include "keys/key_numbers.h"
#include "lookup/table_shards.h"
#include "rows/row_types.h"

namespace graph_opt {

// Some rows of a table, as a lookup or an update names them; those below 0 are none.
struct NamedRows {
  bool wide = true;  // int64, else int32
  const void* ids = nullptr;
  int64_t num_ids = 0;
  int shard = -1;  // ids are rows of this shard; -1: ids of the table
};

// Counts, for each different row that a step used, the updates that have written it since.
//
// Lives for a call, in scratch memory.
class MissedUpdates {
 public:
  explicit MissedUpdates(const TableShards& shards) : shards_(shards) { rows_.Begin(); }

  // Rows that the step used. All of them are named before the first update.
  void Use(const NamedRows& rows);

  // One more update wrote these.
  void Miss(const std::vector<NamedRows>& rows);

  // How many rows missed 0, 1, 2, ... updates; the last entry has those of as many or more.
  std::vector<int64_t> Histogram(int size) const;

 private:
  struct Count {
    int32_t updates = 0;
    int32_t last = 0;  // number of the last update that wrote the row
  };

  const TableShards& shards_;
  KeyNumbers rows_;
  std::vector<Count> counts_;
  int32_t num_updates_ = 0;
};

// Columns of a matrix.
struct Columns {
  RowType type = RowType::kFloat;
  const void* data = nullptr;
  int64_t num_rows = 0;
  int64_t stride = 0;  // elements from row to row
  int64_t first = 0;
  int64_t width = 0;
};

// Sums of squares: of what two matrices differ by, and of the second one.
struct Squares {
  double difference = 0;
  double value = 0;
};

// Adds those of two matrices of the same type and shape.
void AddSquares(const Columns& used, const Columns& fresh, Squares* sums);

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_MISSED_UPDATES_H_
