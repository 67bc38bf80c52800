#include "deferred/span_list.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace graph_opt {
namespace {

// A later span is left out if it moves a row less than this part of what earlier ones do.
constexpr double kNegligible = 1.0 / (1 << 28);

}  // namespace

SpanList::SpanList(const SpanRing& ring, std::vector<IdleSpan>* spans)
    : ring_(ring), spans_(spans), moment_(ring.rule().moment < 0 ? 0 : 1) {}

bool SpanList::GoesOn() const { return moment_ >= FLT_MIN || ring_.rule().keeps; }

void SpanList::Add(const float* span, int64_t num_updates) {
  const IdleStep& rule = ring_.rule();
  const SpanLayout& layout = ring_.layout();
  const double kept = rule.keeps ? span[layout.kept()] : 1;
  AveragedSpan averaged;
  double greatest = std::fabs(span[0]);
  if (layout.averages()) {
    averaged.share = span[layout.share()];
    averaged.lost = span[layout.lost()];
    greatest = std::max<double>(greatest, std::fabs(span[layout.averaged_sums()]));
  }
  Append(kept, averaged);
  moved_ *= std::fabs(kept);
  // A later span moves a weight by sums[0] * moment / root at most, and an earlier one by sums[0]
  // at least, both over the same divisor.
  const double root = rule.root < 0 ? 1 : std::sqrt(ring_.SlotDecay(rule.root, num_updates_));
  const double most = greatest * moment_ / root;
  if (moment_ >= FLT_MIN && most != 0 && !(most < kNegligible * moved_)) {
    IdleSpan listed = {};
    listed.sums = span;
    listed.moment = static_cast<float>(moment_);
    listed.root = static_cast<float>(root * ring_.series().center);
    listed.kept = static_cast<float>(kept_);
    if (layout.averages()) listed.averaged_sums = span + layout.averaged_sums();
    listed.share = static_cast<float>(averaged_.share);
    listed.lost = static_cast<float>(averaged_.lost);
    spans_->push_back(listed);
    kept_ = 1;
    averaged_ = AveragedSpan();
    moved_ += most;
  }
  num_updates_ += num_updates;
  if (rule.moment >= 0) moment_ = ring_.SlotDecay(rule.moment, num_updates_);
}

void SpanList::Rest(double log_left) {
  AveragedSpan rest;
  rest.share = -std::expm1(log_left);
  Append(1, rest);
}

void SpanList::Append(double kept, const AveragedSpan& averaged) {
  averaged_.lost =
      averaged.share * (1 - kept_) + (1 - averaged.share) * averaged_.lost + averaged.lost * kept_;
  averaged_.share += averaged.share - averaged.share * averaged_.share;
  kept_ *= kept;
}

void SpanList::Finish(IdleRow* row) const {
  row->kept = static_cast<float>(kept_);
  row->share = static_cast<float>(averaged_.share);
  row->lost = static_cast<float>(averaged_.lost);
}

}  // namespace graph_opt
