#ifndef GRAPH_OPT_OPTIMIZERS_GRADIENT_DESCENT_H_
#define GRAPH_OPT_OPTIMIZERS_GRADIENT_DESCENT_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// tf.train.GradientDescentOptimizer, which TensorFlow writes as a product and a ScatterSub.
struct GradientDescent : Spec {
  static constexpr int kSlots = 0;
  float learning_rate;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("GradientDescent");
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights) const {
    *weights -= gradient * learning_rate;
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_GRADIENT_DESCENT_H_
