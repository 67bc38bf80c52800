#include "deferred/mixed_steps.h"

#include <algorithm>

namespace graph_opt {
namespace {

constexpr int64_t kSpan = 512;

// The power of 2 that is not below.
int64_t PowerAbove(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

size_t Place(uint32_t step, const std::vector<Mixing>& spans) { return step & (spans.size() - 1); }

}  // namespace

Mixing MixedSteps::Of(uint32_t step, int64_t age) const {
  Mixing all;
  for (; age >= kSpan; age -= kSpan) {
    const uint32_t begin = step - static_cast<uint32_t>(age);
    all = (*spans_)[Place(begin, *spans_)].After(all);
  }
  return last_[static_cast<size_t>(age)].After(all);
}

MixedHistory::MixedHistory(int64_t most_missed)
    : spans_(std::make_shared<std::vector<Mixing>>(PowerAbove(most_missed))), last_(kSpan) {}

void MixedHistory::Add(const Mixing& mixing, uint32_t step) {
  const Mixing complete = mixing.After(last_.back());
  for (size_t age = last_.size() - 1; age > 0; --age) last_[age] = mixing.After(last_[age - 1]);
  num_steps_ = std::min(num_steps_ + 1, kSpan);
  if (num_steps_ < kSpan) return;
  (*spans_)[Place(step - static_cast<uint32_t>(kSpan), *spans_)] = complete;
}

std::shared_ptr<const MixedSteps> MixedHistory::Passed() const {
  const auto passed = std::make_shared<MixedSteps>();
  passed->spans_ = spans_;
  passed->last_ = last_;
  return passed;
}

}  // namespace graph_opt
