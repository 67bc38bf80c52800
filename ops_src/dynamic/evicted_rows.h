#ifndef GRAPH_OPT_DYNAMIC_EVICTED_ROWS_H_
#define GRAPH_OPT_DYNAMIC_EVICTED_ROWS_H_

#include <cstdint>
#include <vector>

namespace graph_opt {

// Keys that lost their rows, with the weights that they had.
struct EvictedRows {
  std::vector<int64_t> keys;
  std::vector<float> weights;  // [keys, dim]

  void Append(const EvictedRows& more) {
    keys.insert(keys.end(), more.keys.begin(), more.keys.end());
    weights.insert(weights.end(), more.weights.begin(), more.weights.end());
  }
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_EVICTED_ROWS_H_
