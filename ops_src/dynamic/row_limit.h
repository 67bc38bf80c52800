#ifndef GRAPH_OPT_DYNAMIC_ROW_LIMIT_H_
#define GRAPH_OPT_DYNAMIC_ROW_LIMIT_H_

#include <cstdint>
#include <string>

namespace graph_opt {

// The most rows that a table may have, all of which keep theirs: lookups that need more are refused
// and change nothing.
struct RowLimit {
  int64_t rows = 0;    // 0 for any number
  std::string option;  // what the user calls it, for messages
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_LIMIT_H_
