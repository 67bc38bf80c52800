#ifndef GRAPH_OPT_DEFERRED_STEP_SPAN_H_
#define GRAPH_OPT_DEFERRED_STEP_SPAN_H_

#include <cstdint>

namespace graph_opt {

// How an average over time of some weights moves in some steps, apart from their drift: by
// (weights - average) * share - weights * lost, both as they were before the steps.
struct AveragedSpan {
  double share = 0;
  double lost = 0;  // only where weights are multiplied by IdleStep::kept
};

// The numbers of a span, consecutive steps that a row may miss, one after another: its sums, the
// factor of weights, and with averages their sums and AveragedSpan (IdleSpan says what they mean).
class SpanLayout {
 public:
  SpanLayout(int num_sums, bool averages) : num_sums_(num_sums), averages_(averages) {}

  int64_t num_sums() const { return num_sums_; }
  bool averages() const { return averages_; }
  int64_t size() const { return averages_ ? 2 * num_sums_ + 3 : num_sums_ + 1; }

  int64_t kept() const { return num_sums_; }
  int64_t averaged_sums() const { return num_sums_ + 1; }
  int64_t share() const { return 2 * num_sums_ + 1; }
  int64_t lost() const { return 2 * num_sums_ + 2; }

 private:
  const int64_t num_sums_;
  const bool averages_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_STEP_SPAN_H_
