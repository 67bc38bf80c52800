#include "deferred/drift_series.h"

#include <algorithm>
#include <cmath>

namespace graph_opt {
namespace {

constexpr int kMostSums = 32;
constexpr int64_t kMostSteps = 1024;
constexpr int64_t kMostTerms = 8192;  // which each step computes anew
constexpr double kSpanCost = 7;       // in the time that one more sum takes

double RootDecay(const IdleStep& rule) {
  return rule.root < 0 ? 1.0 : std::sqrt(rule.decays[rule.root]);
}

// After so many steps at the same rate, what is still to come is below a float's rounding.
double StepsThatCount(const IdleStep& rule) {
  const double moment = rule.decays[rule.moment];
  const double ratio = moment / RootDecay(rule);
  // Where the root decays faster than the moment, each step is longer than the one before until
  // epsilon bounds it: the moment itself has to go.
  const double steps = ratio < 1 ? -30 / std::log2(ratio) : -126 / std::log2(moment);
  return std::max(1.0, std::min(steps, 1e6));
}

// The steps of a span with so many sums.
int64_t StepsWith(int num_sums, double root_decay) {
  if (root_decay >= 1) return kMostSteps;
  if (root_decay <= 0) return 1;
  const double widest = std::pow(DriftSeries::kLeftOut, 1.0 / num_sums);  // q
  const double least = (1 - widest) / (1 + widest);                       // p^(J - 1)
  return 1 + static_cast<int64_t>(std::min(1e6, std::log(least) / std::log(root_decay)));
}

void Tabulate(double moment, double root, DriftSeries* series) {
  series->center = (root + std::pow(root, series->num_steps)) / 2;
  series->terms.assign((series->num_steps + 1) * series->num_sums, 0.0);
  for (int64_t j = 1; j <= series->num_steps; ++j) {
    const double u = series->center > 0 ? 1 - std::pow(root, j) / series->center : 0;
    double term = std::pow(moment, j);
    for (int i = 0; i < series->num_sums; ++i) {
      series->terms[j * series->num_sums + i] = term;
      term *= u;
    }
  }
}

}  // namespace

DriftSeries ChooseSeries(const IdleStep& rule) {
  DriftSeries best = {kMostSteps, 1, 1.0, {}};
  if (rule.moment < 0) {  // nothing moves
    best.terms.assign(kMostSteps + 1, 0.0);
    return best;
  }
  const double root = RootDecay(rule);
  const double needed = StepsThatCount(rule);
  double least_time = 0;
  for (int sums = 1; sums <= (rule.root < 0 ? 1 : kMostSums); ++sums) {
    const int64_t longest = std::min(kMostSteps, kMostTerms / sums - 1);
    const int64_t steps =
        std::min({StepsWith(sums, root), longest, static_cast<int64_t>(std::ceil(needed))});
    // A row that missed few steps takes one span; the others take more.
    const double time = (kSpanCost + sums) * (2 + needed / static_cast<double>(steps));
    if (sums > 1 && time >= least_time) continue;
    least_time = time;
    best.num_steps = steps;
    best.num_sums = sums;
  }
  Tabulate(rule.decays[rule.moment], root, &best);
  return best;
}

}  // namespace graph_opt
