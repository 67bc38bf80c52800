#include "deferred/step_history.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace graph_opt {
namespace {

constexpr int64_t kPowers = 256;

// A later span is left out if it moves a row less than this part of what earlier ones do.
constexpr double kNegligible = 1.0 / (1 << 28);

// The power of 2 that is not below.
int64_t PowerAbove(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// Puts the spans of one row together.
class SpanList {
 public:
  SpanList(const SpanRing& ring, std::vector<IdleSpan>* spans) : ring_(ring), spans_(spans) {
    const IdleStep& rule = ring.rule();
    const int64_t steps = ring.series().num_steps;
    if (rule.moment < 0) return;
    moment_decay_ = ring.SlotDecay(rule.moment, steps);
    if (rule.root >= 0) root_decay_ = std::sqrt(ring.SlotDecay(rule.root, steps));
  }

  // Whether further spans still move a weight, or change it at all.
  bool GoesOn() const { return moment_ >= FLT_MIN || ring_.rule().keeps; }

  // The next num_steps steps, or the last ones.
  void Add(const float* sums, double kept) {
    kept_ *= kept;
    moved_ *= std::fabs(kept);
    // A later span moves a weight by sums[0] * moment / root at most, and an earlier one by sums[0]
    // at least, both over the same divisor.
    const double most = std::fabs(sums[0]) * moment_ / root_;
    const bool counts = moment_ >= FLT_MIN && most != 0 && !(most < kNegligible * moved_);
    if (counts) {
      const double center = ring_.series().center;
      spans_->push_back({sums, static_cast<float>(moment_), static_cast<float>(root_ * center),
                         static_cast<float>(kept_)});
      kept_ = 1;
      moved_ += most;
    }
    moment_ *= moment_decay_;
    root_ *= root_decay_;
  }

  double kept() const { return kept_; }

 private:
  const SpanRing& ring_;
  std::vector<IdleSpan>* const spans_;
  double moment_decay_ = 0;
  double root_decay_ = 1;
  double moment_ = 1;
  double root_ = 1;
  double kept_ = 1;   // since the last span that is listed
  double moved_ = 0;  // over the first divisor
};

}  // namespace

SpanRing::SpanRing(const IdleStep& rule, int64_t num_spans)
    : rule_(rule),
      series_(ChooseSeries(rule)),
      num_spans_(num_spans),
      sums_(num_spans * series_.num_sums),
      kept_(rule.keeps ? num_spans : 0) {
  for (int slot = 0; slot < rule.num_slots; ++slot) {
    for (int64_t n = 0; n < kPowers; ++n) {
      powers_[slot].push_back(std::pow(rule.decays[slot], static_cast<double>(n)));
    }
    for (int64_t n = 0; n <= num_spans; n += kPowers) {
      high_powers_[slot].push_back(std::pow(rule.decays[slot], static_cast<double>(n)));
    }
  }
}

void SpanRing::Complete(uint32_t step, const double* sums, double kept) {
  std::copy(sums, sums + num_sums(), sums_.data() + Place(step) * num_sums());
  if (rule_.keeps) kept_[Place(step)] = static_cast<float>(kept);
}

double SpanRing::SlotDecay(int slot, int64_t n) const {
  const size_t high = static_cast<size_t>(n / kPowers);
  if (high >= high_powers_[slot].size()) return std::pow(rule_.decays[slot], n);
  return high_powers_[slot][high] * powers_[slot][n % kPowers];
}

void PassedSteps::Describe(int64_t age, IdleRow* row, std::vector<IdleSpan>* spans) const {
  if (mixed_ != nullptr) {
    const Mixing all = mixed_->Of(step_, age);
    row->mixing = {
        static_cast<float>(all.slot_from_slot), static_cast<float>(all.slot_from_weights),
        static_cast<float>(all.weights_from_slot), static_cast<float>(all.weights_from_weights)};
    return;
  }
  const SpanRing& ring = *ring_;
  for (int slot = 0; slot < ring.rule().num_slots; ++slot) {
    row->decays[slot] = static_cast<float>(ring.SlotDecay(slot, age));
  }
  row->first_span = static_cast<int64_t>(spans->size());
  SpanList list(ring, spans);
  const int64_t steps = ring.series().num_steps;
  for (; age >= steps && list.GoesOn(); age -= steps) {
    const uint32_t begin = step_ - static_cast<uint32_t>(age);
    list.Add(ring.SumsFrom(begin), ring.KeptFrom(begin));
  }
  if (age > 0 && age < steps) {
    list.Add(sums_.data() + age * ring.num_sums(), ring.rule().keeps ? kept_[age] : 1.0f);
  }
  row->num_spans = static_cast<int64_t>(spans->size()) - row->first_span;
  row->kept = static_cast<float>(list.kept());
}

StepHistory::StepHistory(const IdleStep& rule, int64_t most_missed, uint32_t first_step)
    : ring_(std::make_shared<SpanRing>(rule, PowerAbove(most_missed))),
      sums_(ring_->series().terms.size()),
      next_sums_(sums_.size()),
      kept_(rule.keeps ? ring_->series().num_steps + 1 : 0, 1.0),
      mixed_(rule.mixes ? new MixedHistory(most_missed) : nullptr) {
  Publish(first_step);
}

// A span that ends with this step is the one that ended with the step before, and this step.
void StepHistory::Add(const IdleStep& step) {
  if (mixed_ != nullptr) {
    mixed_->Add(step.mixing, passed_->step() + 1);
    return Publish(passed_->step() + 1);
  }
  const DriftSeries& series = ring_->series();
  const int64_t num_sums = series.num_sums;
  const int64_t count = static_cast<int64_t>(sums_.size());
  const double kept = step.kept;
  const double rate = step.rate;
  const double* const terms = series.terms.data();
  const double* const before = sums_.data() - num_sums;
  double* const next = next_sums_.data();
  for (int64_t i = num_sums; i < count; ++i) next[i] = before[i] * kept + terms[i] * rate;
  sums_.swap(next_sums_);
  for (size_t j = kept_.size(); j > 1; --j) kept_[j - 1] = kept_[j - 2] * kept;
  const uint32_t now = passed_->step() + 1;
  if (++num_steps_ >= series.num_steps) {
    ring_->Complete(now - static_cast<uint32_t>(series.num_steps),
                    sums_.data() + series.num_steps * num_sums, kept_.empty() ? 1 : kept_.back());
  }
  Publish(now);
}

void StepHistory::Publish(uint32_t step) {
  const auto passed = std::make_shared<PassedSteps>();
  passed->step_ = step;
  passed->ring_ = ring_;
  passed->sums_.assign(sums_.begin(), sums_.end() - ring_->num_sums());
  if (!kept_.empty()) passed->kept_.assign(kept_.begin(), kept_.end() - 1);
  if (mixed_ != nullptr) passed->mixed_ = mixed_->Passed();
  passed_ = passed;
}

}  // namespace graph_opt
