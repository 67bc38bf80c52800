#ifndef GRAPH_OPT_DEFERRED_DRIFT_SERIES_H_
#define GRAPH_OPT_DEFERRED_DRIFT_SERIES_H_

#include <cstdint>
#include <vector>

#include "optimizers/idle_step.h"

namespace graph_opt {

// How the steps without gradient that a row missed become a few numbers, the same for all columns.
//
// With b the decay of the moment m, p that of the root a = sqrt(v), and e epsilon, the j-th of n
// missed steps moves the weight by rate_j * m b^j / (a p^j + e). For any c, with d = a c + e,
//
//   1 / (a p^j + e) = 1/d * (1 + y u_j + y^2 u_j^2 + ...),   y = a c / d,   u_j = 1 - p^j / c
//
// so that all steps together move it by m/d * sum_i y^i S_i, where S_i = sum_j rate_j b^j u_j^i
// does not depend on the column. y is between 0 and 1 whatever epsilon is. For j from 1 to
// num_steps, c in the middle of p^j keeps |u_j| <= q = (p - p^J) / (p + p^J), and I sums leave out
// the part (y u_j)^I <= q^I of each single step, whatever the rates were. The sums are the same for
// all rows, so they are computed once in each step.
//
// That part, sums of float, and the rounding of the formula together are below 4 * 2^-23 of the
// drift, 0.6 * 2^-23 by root mean square, for rows that missed up to 15,000 steps, and below
// 8 * 2^-23 up to 100,000: found by tests/ops/deferred_accuracy_test.cc, which compares them with
// double. The weight itself is rounded once, where step by step it is rounded in each step. Over
// 10,000 steps of training, deferred weights therefore stay nearer to those in double than
// TensorFlow's: by root mean square at 8.9 units in the last place instead of 20.3.
struct DriftSeries {
  int64_t num_steps;          // J, that one span covers at most
  int num_sums;               // I
  double center;              // c
  std::vector<double> terms;  // b^j u_j^i at [j, i]; those of j = 0 are 0

  // What is left out of each step's move, at most, as a part of it: a quarter of float's rounding.
  static constexpr double kLeftOut = 1.0 / (1 << 26);
};

// The series with which old rows are caught up in the least time.
DriftSeries ChooseSeries(const IdleStep& rule);

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_DRIFT_SERIES_H_
