#ifndef GRAPH_OPT_DEFERRED_MIXED_STEPS_H_
#define GRAPH_OPT_DEFERRED_MIXED_STEPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "optimizers/idle_step.h"

namespace graph_opt {

// Steps that mix the weights of a row without gradient with a slot (Mixing in idle_step.h), as
// momentum with a penalty on all weights does. Missed steps are then one product of 2 x 2 matrices,
// the same for all rows and columns. Does not change.
class MixedSteps {
 public:
  // The last `age` steps until `step`.
  Mixing Of(uint32_t step, int64_t age) const;

 private:
  friend class MixedHistory;

  // By the first step modulo their number: products of kSpan steps. Shared by all that come later,
  // which replace those that no row needs any more.
  std::shared_ptr<const std::vector<Mixing>> spans_;
  std::vector<Mixing> last_;  // of the last 0, 1, ... kSpan - 1 steps
};

// Collects these, in memory that does not grow: of old steps, only those that a row may need which
// missed `most_missed` steps.
class MixedHistory {
 public:
  explicit MixedHistory(int64_t most_missed);

  // Adds a step, which ends as `step`.
  void Add(const Mixing& mixing, uint32_t step);

  std::shared_ptr<const MixedSteps> Passed() const;

 private:
  const std::shared_ptr<std::vector<Mixing>> spans_;
  std::vector<Mixing> last_;
  int64_t num_steps_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_MIXED_STEPS_H_
