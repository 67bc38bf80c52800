#ifndef GRAPH_OPT_INITIAL_INITIAL_ROWS_H_
#define GRAPH_OPT_INITIAL_INITIAL_ROWS_H_

#include <cstdint>

#include "lookup/parallel.h"

namespace graph_opt {

enum class Distribution { kUniform, kNormal, kTruncatedNormal };

// The initial values of a table, each a function of its row, its column and the key alone. So a row
// is the same wherever it is, in whatever order rows are made.
struct InitialValues {
  Distribution distribution;
  uint64_t key;    // of the table's stream
  int64_t column;  // of the table where `width` begins
  int64_t width;   // columns to make
  float first;     // lower bound, or mean
  float second;    // upper bound, or standard deviation
};

// Writes `count` rows of `width` values each. Truncated values are within two standard deviations.
void WriteInitialRows(const InitialValues& values, const int64_t* rows, int64_t count,
                      Parallel* parallel, float* output);

// The same for a single row.
void WriteInitialRow(const InitialValues& values, int64_t row, float* output);

}  // namespace graph_opt

#endif  // GRAPH_OPT_INITIAL_INITIAL_ROWS_H_
