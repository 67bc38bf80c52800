#ifndef GRAPH_OPT_OPTIMIZERS_PROXIMAL_H_
#define GRAPH_OPT_OPTIMIZERS_PROXIMAL_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// FOBOS (Duchi and Singer, 2009): after a step at some rate, weights are drawn to 0 by l1 and l2.
template <typename Lanes, typename V, typename Rate>
GRAPH_OPT_FORMULA V Shrunk(V weights, Rate rate, float l1, float l2) {
  if (l1 > 0) {
    const V bound = V{} + rate * l1;
    weights = Lanes::Greatest(weights - bound, V{}) + Lanes::Least(weights + bound, V{});
  }
  return weights / (1.0f + rate * l2);
}

// tf.train.ProximalAdagradOptimizer.
struct ProximalAdagrad : Spec {
  static constexpr int kSlots = 1;
  float learning_rate;
  float l1;
  float l2;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("ProximalAdagrad");
    of->StockOp(
        "SparseApplyProximalAdagrad(table, accumulator, learning_rate, l1, l2, gradient, rows)");
    of->Slot("accumulator", 0.1f);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f, Bound::kPositive);
    of->Hyperparameter("l1", &l1, 0.125f, Bound::kNotNegative);
    of->Hyperparameter("l2", &l2, 0.0625f, Bound::kNotNegative);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator) const {
    *accumulator += gradient * gradient;
    const V rate = learning_rate / Lanes::SquareRoot(*accumulator);
    *weights = Shrunk<Lanes>(*weights - gradient * rate, rate, l1, l2);
  }
};

// tf.train.ProximalGradientDescentOptimizer.
struct ProximalGradientDescent : Spec {
  static constexpr int kSlots = 0;
  float learning_rate;
  float l1;
  float l2;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("ProximalGradientDescent");
    of->StockOp("SparseApplyProximalGradientDescent(table, learning_rate, l1, l2, gradient, rows)");
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("l1", &l1, 0.125f);
    of->Hyperparameter("l2", &l2, 0.0625f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights) const {
    *weights = Shrunk<Lanes>(*weights - gradient * learning_rate, learning_rate, l1, l2);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_PROXIMAL_H_
