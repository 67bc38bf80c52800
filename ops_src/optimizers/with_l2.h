#ifndef GRAPH_OPT_OPTIMIZERS_WITH_L2_H_
#define GRAPH_OPT_OPTIMIZERS_WITH_L2_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// A spec with a penalty of l2 / 2 times the squares of all weights: each step changes every row.
template <typename Plain>
struct WithL2 : Plain {
  float l2;

  template <typename Description>
  void DescribeValues(Description* of) {
    Plain::DescribeValues(of);
    of->Hyperparameter("l2", &l2, 0.0625f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector, typename... Slots>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, Slots... slots) const {
    Plain::template Update<Lanes>(gradient + *weights * l2, weights, slots...);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_WITH_L2_H_
