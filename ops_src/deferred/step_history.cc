#include "deferred/step_history.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace graph_opt {
namespace {

constexpr int64_t kPowers = 256;

// What is left out of all later spans together, as a part of the move that earlier ones make.
constexpr double kNegligible = 1.0 / (int64_t{1} << 32);

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
  void Add(const float* sums) {
    const double kept = sums[ring_.series().num_sums];
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
      spans_(num_spans * (series_.num_sums + 1)) {
  for (int slot = 0; slot < rule.num_slots; ++slot) {
    for (int64_t n = 0; n < kPowers; ++n) {
      powers_[slot].push_back(std::pow(rule.decays[slot], static_cast<double>(n)));
    }
    for (int64_t n = 0; n <= num_spans; n += kPowers) {
      high_powers_[slot].push_back(std::pow(rule.decays[slot], static_cast<double>(n)));
    }
  }
}

double SpanRing::SlotDecay(int slot, int64_t n) const {
  const size_t high = static_cast<size_t>(n / kPowers);
  if (high >= high_powers_[slot].size()) return std::pow(rule_.decays[slot], n);
  return high_powers_[slot][high] * powers_[slot][n % kPowers];
}

void PassedSteps::Describe(int64_t age, IdleRow* row, std::vector<IdleSpan>* spans) const {
  const SpanRing& ring = *ring_;
  for (int slot = 0; slot < ring.rule().num_slots; ++slot) {
    row->decays[slot] = static_cast<float>(ring.SlotDecay(slot, age));
  }
  row->first_span = static_cast<int64_t>(spans->size());
  SpanList list(ring, spans);
  const int64_t steps = ring.series().num_steps;
  for (; age >= steps && list.GoesOn(); age -= steps) {
    list.Add(ring.At(step_ - static_cast<uint32_t>(age)));
  }
  if (age > 0 && age < steps) list.Add(window_.data() + age * ring.width());
  row->num_spans = static_cast<int64_t>(spans->size()) - row->first_span;
  row->kept = static_cast<float>(list.kept());
}

StepHistory::StepHistory(const IdleStep& rule, int64_t most_missed, uint32_t first_step)
    : ring_(std::make_shared<SpanRing>(rule, PowerAbove(most_missed))),
      sums_(ring_->series().terms.size()),
      next_sums_(sums_.size()),
      kept_(ring_->series().num_steps + 1, 1.0) {
  const auto passed = std::make_shared<PassedSteps>();
  passed->step_ = first_step;
  passed->ring_ = ring_;
  passed->window_.resize(ring_->series().num_steps * ring_->width());
  passed_ = passed;
}

// A span that ends with this step is the one that ended with the step before, and this step.
void StepHistory::Add(const IdleStep& step) {
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
  for (int64_t j = series.num_steps; j > 0; --j) kept_[j] = kept_[j - 1] * kept;

  const auto passed = std::make_shared<PassedSteps>();
  passed->step_ = passed_->step_ + 1;
  passed->ring_ = ring_;
  const int64_t width = ring_->width();
  passed->window_.resize(series.num_steps * width);
  const auto write = [&](int64_t j, float* span) {
    const double* const sums = sums_.data() + j * num_sums;
    std::copy(sums, sums + num_sums, span);
    span[num_sums] = static_cast<float>(kept_[j]);
  };
  for (int64_t j = 1; j < series.num_steps; ++j) write(j, passed->window_.data() + j * width);
  if (++num_steps_ >= series.num_steps) {
    write(series.num_steps, ring_->At(passed->step_ - static_cast<uint32_t>(series.num_steps)));
  }
  passed_ = passed;
}

}  // namespace graph_opt
