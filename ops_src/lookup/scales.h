#ifndef GRAPH_OPT_LOOKUP_SCALES_H_
#define GRAPH_OPT_LOOKUP_SCALES_H_

#include <cmath>
#include <cstdint>

#include "rows/row_types.h"

namespace graph_opt {

// What the gradient of a pooled bag is multiplied by for each of its ids: nothing for the filled id
// of an empty bag.
inline float ScaleOf(Combiner combiner, int64_t count) {
  if (count == 0) return 0.0f;
  if (combiner == Combiner::kSum || count == 1) return 1.0f;
  const double n = static_cast<double>(count);
  return static_cast<float>(1.0 / (IsMean(combiner) ? n : std::sqrt(n)));
}

// The same, without dividing for each bag.
class Scales {
 public:
  explicit Scales(Combiner combiner) : combiner_(combiner), known_(Known()[combiner]) {}

  float Of(int64_t count) const {
    return count < kKnown ? known_[count] : ScaleOf(combiner_, count);
  }

 private:
  static constexpr int64_t kKnown = 64;

  struct KnownScales {
    KnownScales() {
      for (int combiner = 0; combiner < kCombiners; ++combiner) {
        for (int64_t count = 0; count < kKnown; ++count) {
          of[combiner][count] = ScaleOf(static_cast<Combiner>(combiner), count);
        }
      }
    }
    const float* operator[](Combiner combiner) const { return of[static_cast<int>(combiner)]; }

    float of[kCombiners][kKnown];
  };

  static const KnownScales& Known() {
    static const KnownScales known;
    return known;
  }

  const Combiner combiner_;
  const float* const known_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_LOOKUP_SCALES_H_
