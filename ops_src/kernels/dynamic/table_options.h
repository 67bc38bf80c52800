#ifndef GRAPH_OPT_KERNELS_DYNAMIC_TABLE_OPTIONS_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_TABLE_OPTIONS_H_

#include <string>

#include "dynamic/dynamic_table_options.h"
#include "tensorflow/core/lib/core/status.h"

namespace graph_opt {

// Reads the attribute `options` of ops of dynamic tables:
//
//   {"dim": 16,
//    "initial": {"kind": "bank"}, or {"kind": "constant", "value": 0.1}, or
//               {"kind": "uniform", or "normal", or "truncated_normal",
//                "first": f, "second": f, "key": "decimal int64"},
//    "no_permission": 0.0,
//    "admission": {"kind": "counter", "filter_freq": n}, or
//                 {"kind": "bloom", "filter_freq": n, "expected_keys": n,
//                  "false_positive_probability": p}, or
//                 {"kind": "probability", "probability": p, "key": "decimal int64"},
//    "capacity": rows,
//    "eviction": {"kind": "steps_to_live", "steps_to_live": n}, or
//                {"kind": "l2", "l2_threshold": t}, or
//                {"kind": "lru", or "lfu", or "epoch_lru", or "epoch_lfu", or "custom"},
//    "limit": {"rows": n, "option": "what the user calls it"},
//    "tiers": {"memory_bytes": n, "path": "folder", "file_bytes": n},
//    "stripes": 64, "reserved_bytes": n}
//
// All but `dim` may be left out. `name` is that of the table.
tensorflow::Status ReadTableOptions(const std::string& json, const std::string& name,
                                    DynamicTableOptions* options);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_TABLE_OPTIONS_H_
