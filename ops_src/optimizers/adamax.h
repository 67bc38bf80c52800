#ifndef GRAPH_OPT_OPTIMIZERS_ADAMAX_H_
#define GRAPH_OPT_OPTIMIZERS_ADAMAX_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// Keras' Adamax: Adam with the largest decayed gradient instead of the root of v. Keras writes it
// as several ops over the rows with a gradient; others stay as they are.
struct Adamax : Spec {
  static constexpr int kSlots = 2;
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float beta1_power;
  float corrected_rate;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("Adamax");
    of->Slot("m", 0);
    of->Slot("u", 0);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("beta1", &beta1, 0.875f);
    of->Hyperparameter("beta2", &beta2, 0.9375f);
    of->Hyperparameter("epsilon", &epsilon, 0.0078125f);
    of->Hyperparameter("beta1_power", &beta1_power, 0.875f);
  }

  void Prepare() { corrected_rate = learning_rate / (1.0f - beta1_power); }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* m, V* u) const {
    *m = *m * beta1 + gradient * (1.0f - beta1);
    *u = Lanes::Greatest(*u * beta2, Lanes::Greatest(gradient, -gradient));
    *weights -= corrected_rate * (*m / (*u + epsilon));
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_ADAMAX_H_
