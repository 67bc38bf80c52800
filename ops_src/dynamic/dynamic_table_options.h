#ifndef GRAPH_OPT_DYNAMIC_DYNAMIC_TABLE_OPTIONS_H_
#define GRAPH_OPT_DYNAMIC_DYNAMIC_TABLE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "dynamic/table_policies.h"
#include "initial/initial_rows.h"

namespace graph_opt {

// What the rows of new keys begin with.
enum class InitialKind {
  kConstant,  // `initial_constant`
  kKeyed,     // what `initial_values` makes of the key
  kBank,      // a copy of row key % bank rows of the bank
};

struct DynamicTableOptions {
  std::string name;  // of the variable, for messages
  int64_t dim = 0;
  InitialKind initial = InitialKind::kConstant;
  float initial_constant = 0;
  InitialValues initial_values = {};
  float no_permission = 0;  // in all of the row that keys without permission read
  TablePolicies policies;
  // Whether frequencies of keys that have a row are counted, though no rule needs them. If not, and
  // no rule needs to know when rows were last looked up either, lookups write nothing, and so are
  // much quicker.
  bool counts_lookups = true;
  // Whether it is known when rows were last looked up and written. Their versions then are times,
  // in microseconds since 1970, and not steps.
  bool notes_times = false;
  int stripes = 64;                            // a power of two, at most 4096
  int64_t reserved_bytes = int64_t{64} << 30;  // addresses for rows without slots; less if need be
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_DYNAMIC_TABLE_OPTIONS_H_
