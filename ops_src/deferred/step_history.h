#ifndef GRAPH_OPT_DEFERRED_STEP_HISTORY_H_
#define GRAPH_OPT_DEFERRED_STEP_HISTORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "deferred/drift_series.h"
#include "deferred/mixed_steps.h"
#include "deferred/step_span.h"
#include "optimizers/idle_step.h"
#include "rows/row_kernels.h"

namespace graph_opt {

// What happened until a step.
struct StepCount {
  uint32_t num_updates = 0;  // steps that were the optimizer's
  double log_left = 0;       // of the part of an average's first value that is left of it
};

// What all steps under one rule have in common, and the spans that are complete. The one that
// begins with step s is at s modulo their number, until newer ones replace it.
class SpanRing {
 public:
  SpanRing(const IdleStep& rule, int64_t num_spans, bool averages);

  const IdleStep& rule() const { return rule_; }
  const DriftSeries& series() const { return series_; }
  const SpanLayout& layout() const { return layout_; }

  // The span that begins with a step, as laid out.
  const float* From(uint32_t step) const { return spans_.data() + Place(step) * layout_.size(); }
  int64_t StepsFrom(uint32_t step) const;
  void Complete(uint32_t step, int64_t num_steps, const double* span);

  // With averages.
  const StepCount& Until(uint32_t step) const { return until_[Place(step)]; }
  void SetUntil(uint32_t step, const StepCount& count);

  // decay^n of a slot.
  double SlotDecay(int slot, int64_t n) const;

 private:
  int64_t Place(uint32_t step) const { return step & (num_spans_ - 1); }

  const IdleStep rule_;
  const DriftSeries series_;
  const SpanLayout layout_;
  const int64_t num_spans_;  // a power of 2
  std::vector<float> spans_;
  std::vector<int32_t> num_steps_;  // with averages; without, all spans are as long as the series
  std::vector<StepCount> until_;
  std::vector<double> powers_[kMostSlots];       // of 0 to kPowers - 1
  std::vector<double> high_powers_[kMostSlots];  // of the multiples of kPowers
};

// The steps until one of them, as rows are brought there. Does not change.
class PassedSteps {
 public:
  uint32_t step() const { return step_; }
  // The last step that was the optimizer's: weights and slots have been the same since.
  uint32_t last_update() const { return last_update_; }
  const IdleStep& rule() const { return ring_->rule(); }
  bool averages() const { return ring_->layout().averages(); }
  int num_sums() const { return ring_->series().num_sums; }  // of each span

  // The last `age` steps, for a row that missed them. Adds their spans to `spans`.
  void Describe(int64_t age, IdleRow* row, std::vector<IdleSpan>* spans) const;

 private:
  friend class StepHistory;

  uint32_t step_ = 0;
  uint32_t last_update_ = 0;
  StepCount count_;
  std::shared_ptr<const SpanRing> ring_;
  std::vector<float> recent_;  // the spans that end here and are not complete, the oldest first
  int64_t num_recent_ = 0;
  std::shared_ptr<const MixedSteps> mixed_;  // null if the rule does not mix
};

// The steps under one rule (IdleStep::HasRuleOf), in memory that does not grow: of old steps, only
// those that a row may need which missed `most_missed` steps.
//
// With averages, some steps are not the optimizer's but those of an average of the weights over
// time, which moves by (weights - average) * rate.
class StepHistory {
 public:
  // Steps are numbered modulo 2^32.
  StepHistory(const IdleStep& rule, int64_t most_missed, uint32_t first_step,
              bool averages = false);

  const IdleStep& rule() const { return ring_->rule(); }
  bool averages() const { return ring_->layout().averages(); }
  const std::shared_ptr<const PassedSteps>& passed() const { return passed_; }

  // Adds a step of the optimizer, at its own rate and kept factor.
  void Add(const IdleStep& step);

  // Adds a step of the average, whose rate is from 0 to 1.
  void AddAverage(double rate);

 private:
  int64_t num_open() const { return end_ - begin_; }
  void Begin();
  void End(bool is_update);
  void Publish(uint32_t step, uint32_t last_update);

  const std::shared_ptr<SpanRing> ring_;
  const int64_t most_open_;
  std::shared_ptr<const PassedSteps> passed_;
  StepCount count_;
  // The spans that end with the last step and are not complete, the oldest first, as laid out: each
  // begins one step after the one before it.
  std::vector<double> open_;
  std::vector<int32_t> num_updates_;  // of each
  int64_t begin_ = 0;
  int64_t end_ = 0;
  std::unique_ptr<MixedHistory> mixed_;  // instead of all these, if the rule mixes
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_STEP_HISTORY_H_
