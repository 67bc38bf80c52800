#ifndef GRAPH_OPT_OPTIMIZERS_IDLE_STEP_H_
#define GRAPH_OPT_OPTIMIZERS_IDLE_STEP_H_

#include "optimizers/optimizer.h"

namespace graph_opt {

// What one step does to weights and a slot that depend on each other:
//
//   slot     = slot_from_slot    * slot + slot_from_weights    * weights
//   weights  = weights_from_slot * slot + weights_from_weights * weights      both the old ones
struct Mixing {
  double slot_from_slot = 1;
  double slot_from_weights = 0;
  double weights_from_slot = 0;
  double weights_from_weights = 1;

  // Both, this one after the other.
  Mixing After(const Mixing& earlier) const;
};

// What one step does to a row without gradient:
//
//   slots[i] *= decays[i]
//   weights  *= kept
//   weights  -= rate * slots[moment] / (sqrt(slots[root]) + epsilon)     the decayed slots
//
// With root -1 the moment is not divided; with moment -1 there is no third line. Where the first
// slot and the weights mix, there is nothing else.
struct IdleStep {
  int num_slots = 0;
  double decays[kMostSlots] = {1, 1, 1};
  double kept = 1;
  int moment = -1;
  int root = -1;
  double epsilon = 0;
  double rate = 0;
  bool changes = false;  // any line does anything
  bool keeps = false;    // there is a second line, whatever its factor
  bool mixes = false;
  Mixing mixing;

  // Whether the other differs in kept, rate and mixing alone, which may be others in each step.
  bool HasRuleOf(const IdleStep& other) const;
};

// As the optimizer's spec describes it (`Idle` in spec.h).
IdleStep IdleStepOf(const Optimizer& optimizer);

}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_IDLE_STEP_H_
