#ifndef GRAPH_OPT_DEFERRED_SPAN_LIST_H_
#define GRAPH_OPT_DEFERRED_SPAN_LIST_H_

#include <cstdint>
#include <vector>

#include "deferred/step_history.h"

namespace graph_opt {

// Puts the spans together that one row missed, from the oldest on: those that still move it.
class SpanList {
 public:
  SpanList(const SpanRing& ring, std::vector<IdleSpan>* spans);

  // Whether further spans still move a weight, or change it at all.
  bool GoesOn() const;

  // The next span, as laid out, with so many steps of the optimizer.
  void Add(const float* span, int64_t num_updates);

  // The rest of the steps: weights stay, and of an average's distance from them this part is left.
  void Rest(double log_left);

  // What comes after the last span that is listed.
  void Finish(IdleRow* row) const;

 private:
  void Append(double kept, const AveragedSpan& averaged);

  const SpanRing& ring_;
  std::vector<IdleSpan>* const spans_;
  int64_t num_updates_ = 0;
  double moment_;
  double moved_ = 0;  // over the first divisor
  // Since the last span that is listed:
  double kept_ = 1;
  AveragedSpan averaged_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DEFERRED_SPAN_LIST_H_
