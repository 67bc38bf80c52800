#include "deferred/step_history.h"

#include <algorithm>
#include <cmath>

#include "deferred/span_list.h"

namespace graph_opt {
namespace {

constexpr int64_t kPowers = 256;
constexpr double kLeastLog = -100;  // of what is as good as 0

// The power of 2 that is not below.
int64_t PowerAbove(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// How many spans may be incomplete. Steps of an average make them longer, up to as many again as
// those of the optimizer.
int64_t MostOpen(const DriftSeries& series, bool averages) {
  return averages ? 2 * series.num_steps : series.num_steps;
}

}  // namespace

SpanRing::SpanRing(const IdleStep& rule, int64_t num_spans, bool averages)
    : rule_(rule),
      series_(ChooseSeries(rule)),
      layout_(series_.num_sums, averages),
      num_spans_(num_spans),
      spans_(num_spans * layout_.size()),
      num_steps_(averages ? num_spans : 0),
      until_(averages ? num_spans : 0) {
  for (int slot = 0; slot < rule.num_slots; ++slot) {
    for (int64_t n = 0; n < kPowers; ++n) {
      powers_[slot].push_back(std::pow(rule.decays[slot], static_cast<double>(n)));
    }
    for (int64_t n = 0; n <= num_spans; n += kPowers) {
      high_powers_[slot].push_back(std::pow(rule.decays[slot], static_cast<double>(n)));
    }
  }
}

int64_t SpanRing::StepsFrom(uint32_t step) const {
  return num_steps_.empty() ? series_.num_steps : num_steps_[Place(step)];
}

void SpanRing::Complete(uint32_t step, int64_t num_steps, const double* span) {
  std::copy(span, span + layout_.size(), spans_.data() + Place(step) * layout_.size());
  if (!num_steps_.empty()) num_steps_[Place(step)] = static_cast<int32_t>(num_steps);
}

void SpanRing::SetUntil(uint32_t step, const StepCount& count) {
  if (!until_.empty()) until_[Place(step)] = count;
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
  // The steps of the optimizer among the last so many.
  const auto updates_in = [&](int64_t steps) -> int64_t {
    if (!averages() || steps == 0) return steps;
    return count_.num_updates - ring.Until(step_ - static_cast<uint32_t>(steps)).num_updates;
  };
  const int64_t num_updates = updates_in(age);
  for (int slot = 0; slot < ring.rule().num_slots; ++slot) {
    row->decays[slot] = static_cast<float>(ring.SlotDecay(slot, num_updates));
  }
  row->first_span = static_cast<int64_t>(spans->size());
  SpanList list(ring, spans);
  int64_t left = age;
  while (left > num_recent_ && list.GoesOn()) {
    const uint32_t begin = step_ - static_cast<uint32_t>(left);
    const int64_t after = left - ring.StepsFrom(begin);
    list.Add(ring.From(begin), updates_in(left) - updates_in(after));
    left = after;
  }
  if (left > 0 && left <= num_recent_) {
    const float* const span = recent_.data() + (num_recent_ - left) * ring.layout().size();
    list.Add(span, updates_in(left));
  } else if (left > 0 && averages()) {
    list.Rest(count_.log_left - ring.Until(step_ - static_cast<uint32_t>(left)).log_left);
  }
  row->num_spans = static_cast<int64_t>(spans->size()) - row->first_span;
  list.Finish(row);
}

StepHistory::StepHistory(const IdleStep& rule, int64_t most_missed, uint32_t first_step,
                         bool averages)
    : ring_(std::make_shared<SpanRing>(rule, PowerAbove(most_missed), averages)),
      most_open_(rule.moment < 0 && !rule.keeps ? 0 : MostOpen(ring_->series(), averages)),
      open_(2 * most_open_ * ring_->layout().size()),
      num_updates_(2 * most_open_),
      mixed_(rule.mixes ? new MixedHistory(most_missed) : nullptr) {
  Publish(first_step, first_step);
}

void StepHistory::Add(const IdleStep& step) {
  if (mixed_ != nullptr) {
    mixed_->Add(step.mixing, passed_->step() + 1);
    return End(true);
  }
  Begin();
  const SpanLayout& layout = ring_->layout();
  const int64_t num_sums = layout.num_sums();
  const double kept = step.kept;
  const double rate = step.rate;
  const double* const all_terms = ring_->series().terms.data();
  double* span = open_.data() + begin_ * layout.size();
  for (int64_t i = begin_; i < end_; ++i, span += layout.size()) {
    const double* const terms = all_terms + ++num_updates_[i] * num_sums;
    for (int64_t k = 0; k < num_sums; ++k) span[k] = span[k] * kept + terms[k] * rate;
    span[num_sums] *= kept;
  }
  ++count_.num_updates;
  End(true);
}

void StepHistory::AddAverage(double rate) {
  Begin();
  const SpanLayout& layout = ring_->layout();
  double* span = open_.data() + begin_ * layout.size();
  for (int64_t i = begin_; i < end_; ++i, span += layout.size()) {
    double* const averaged = span + layout.averaged_sums();
    for (int64_t k = 0; k < layout.num_sums(); ++k) averaged[k] += (span[k] - averaged[k]) * rate;
    span[layout.share()] += (1 - span[layout.share()]) * rate;
    span[layout.lost()] += (1 - span[layout.kept()] - span[layout.lost()]) * rate;
  }
  count_.log_left += std::max(kLeastLog, std::log1p(-rate));
  End(false);
}

// Opens the span that begins with the next step.
void StepHistory::Begin() {
  ring_->SetUntil(passed_->step(), count_);
  if (most_open_ == 0) return;
  const int64_t size = ring_->layout().size();
  if (end_ == static_cast<int64_t>(num_updates_.size())) {
    std::copy(open_.begin() + begin_ * size, open_.begin() + end_ * size, open_.begin());
    std::copy(num_updates_.begin() + begin_, num_updates_.begin() + end_, num_updates_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  double* const span = open_.data() + end_ * size;
  std::fill(span, span + size, 0.0);
  span[ring_->layout().kept()] = 1;
  num_updates_[end_] = 0;
  ++end_;
}

void StepHistory::End(bool is_update) {
  const uint32_t now = passed_->step() + 1;
  while (num_open() > 0 &&
         (num_updates_[begin_] == ring_->series().num_steps || num_open() == most_open_)) {
    ring_->Complete(now - static_cast<uint32_t>(num_open()), num_open(),
                    open_.data() + begin_ * ring_->layout().size());
    ++begin_;
  }
  Publish(now, is_update ? now : passed_->last_update());
}

void StepHistory::Publish(uint32_t step, uint32_t last_update) {
  const int64_t size = ring_->layout().size();
  const auto passed = std::make_shared<PassedSteps>();
  passed->step_ = step;
  passed->last_update_ = last_update;
  passed->count_ = count_;
  passed->ring_ = ring_;
  passed->recent_.assign(open_.begin() + begin_ * size, open_.begin() + end_ * size);
  passed->num_recent_ = num_open();
  if (mixed_ != nullptr) passed->mixed_ = mixed_->Passed();
  passed_ = passed;
}

}  // namespace graph_opt
