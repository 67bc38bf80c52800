#ifndef GRAPH_OPT_DEFERRED_STEP_HISTORY_H_
#define GRAPH_OPT_DEFERRED_STEP_HISTORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "deferred/drift_series.h"
#include "deferred/mixed_steps.h"
#include "optimizers/idle_step.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// What all steps under one rule have in common, and the sums of spans that are complete. Those of
// the span that begins with step s are at s modulo their number, until newer ones replace them.
class SpanRing {
 public:
  SpanRing(const IdleStep& rule, int64_t num_spans);

  const IdleStep& rule() const { return rule_; }
  const DriftSeries& series() const { return series_; }
  int64_t num_sums() const { return series_.num_sums; }

  // The span that begins with a step: its sums, and the factor of weights.
  const float* SumsFrom(uint32_t step) const { return sums_.data() + Place(step) * num_sums(); }
  float KeptFrom(uint32_t step) const { return rule_.keeps ? kept_[Place(step)] : 1.0f; }
  void Complete(uint32_t step, const double* sums, double kept);

  // decay^n of a slot.
  double SlotDecay(int slot, int64_t n) const;

 private:
  int64_t Place(uint32_t step) const { return step & (num_spans_ - 1); }

  const IdleStep rule_;
  const DriftSeries series_;
  const int64_t num_spans_;  // a power of 2
  std::vector<float> sums_;
  std::vector<float> kept_;                      // none where the rule keeps weights as they are
  std::vector<double> powers_[kMostSlots];       // of 0 to kPowers - 1
  std::vector<double> high_powers_[kMostSlots];  // of the multiples of kPowers
};

// The steps until one of them, as rows are brought there. Does not change.
class PassedSteps {
 public:
  uint32_t step() const { return step_; }
  const IdleStep& rule() const { return ring_->rule(); }
  int num_sums() const { return ring_->series().num_sums; }  // of each span

  // The last `age` steps, for a row that missed them. Adds their spans to `spans`.
  void Describe(int64_t age, IdleRow* row, std::vector<IdleSpan>* spans) const;

 private:
  friend class StepHistory;

  uint32_t step_ = 0;
  std::shared_ptr<const SpanRing> ring_;
  std::vector<float> sums_;                  // of the spans of 0, 1, ... steps that end here
  std::vector<float> kept_;                  // of the same, as in the ring
  std::shared_ptr<const MixedSteps> mixed_;  // null if the rule does not mix
};

// The steps under one rule (IdleStep::HasRuleOf), in memory that does not grow: of old steps, only
// those that a row may need which missed `most_missed` steps.
class StepHistory {
 public:
  // Steps are numbered modulo 2^32.
  StepHistory(const IdleStep& rule, int64_t most_missed, uint32_t first_step);

  const IdleStep& rule() const { return ring_->rule(); }
  const std::shared_ptr<const PassedSteps>& passed() const { return passed_; }

  // Adds a step, at its own rate and kept factor.
  void Add(const IdleStep& step);

 private:
  void Publish(uint32_t step);

  const std::shared_ptr<SpanRing> ring_;
  std::shared_ptr<const PassedSteps> passed_;
  int64_t num_steps_ = 0;
  std::vector<double> sums_;  // as those of passed_, and those of the span that is complete
  std::vector<double> next_sums_;
  std::vector<double> kept_;
  std::unique_ptr<MixedHistory> mixed_;  // instead of all these, if the rule mixes
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_STEP_HISTORY_H_
