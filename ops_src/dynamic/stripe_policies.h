#ifndef GRAPH_OPT_DYNAMIC_STRIPE_POLICIES_H_
#define GRAPH_OPT_DYNAMIC_STRIPE_POLICIES_H_

#include <cstdint>
#include <memory>

#include "dynamic/admission.h"
#include "dynamic/cold_rows.h"

namespace graph_opt {

// What the policies of a table keep for each stripe. Guarded by the stripe's mutex.
struct StripePolicies {
  std::unique_ptr<AdmissionFilter> filter;  // null if all keys are admitted
  ColdRows cold_rows;
  int64_t clock_hand = 0;  // the next row in memory that may give its place away

  // For a stripe without keys.
  void Clear() {
    if (filter != nullptr) filter->Clear();
    cold_rows.Clear();
    clock_hand = 0;
  }
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_STRIPE_POLICIES_H_
