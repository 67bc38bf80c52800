#ifndef GRAPH_OPT_DYNAMIC_TABLE_POLICIES_H_
#define GRAPH_OPT_DYNAMIC_TABLE_POLICIES_H_

#include <cstdint>
#include <string>

#include "dynamic/admission.h"
#include "dynamic/row_limit.h"
#include "dynamic/row_value.h"

namespace graph_opt {

// Which keys of a table lose their rows.
struct EvictionOptions {
  int64_t capacity = 0;  // most keys with a row, 0 for any number
  EvictionOrder order = EvictionOrder::kLru;
  // At checkpoints: keys that were last updated more steps ago, 0 for none.
  int64_t steps_to_live = 0;
  // At checkpoints: keys with half the sum of squared weights below this, 0 for none.
  float l2_threshold = 0;
};

// Where rows are kept.
struct TierOptions {
  int64_t memory_bytes = 0;  // of rows in memory; 0: all of them
  std::string folder;        // of the file with the others
  int64_t file_bytes = 0;    // of that file, 0 for as many as the disk has
};

struct TablePolicies {
  AdmissionOptions admission;
  uint64_t admission_seed = 0;
  EvictionOptions eviction;
  RowLimit limit;
  TierOptions tiers;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_TABLE_POLICIES_H_
