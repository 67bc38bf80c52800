#ifndef GRAPH_OPT_OPTIMIZERS_GRADIENT_DESCENT_H_
#define GRAPH_OPT_OPTIMIZERS_GRADIENT_DESCENT_H_

#include "optimizers/spec.h"
#include "optimizers/with_l2.h"

namespace graph_opt {
namespace optimizers {

// tf.train.GradientDescentOptimizer. With sparse gradients TensorFlow writes it as a product and a
// ScatterSub.
struct GradientDescent : Spec {
  static constexpr int kSlots = 0;
  float learning_rate;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("GradientDescent");
    of->StockOp("ApplyGradientDescent(table, learning_rate, gradient)");
    DescribeValues(of);
  }

  template <typename Description>
  void DescribeValues(Description* of) {
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights) const {
    *weights -= gradient * learning_rate;
  }
};

// The same with a penalty, which shrinks every row.
struct GradientDescentL2 : WithL2<GradientDescent> {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("GradientDescentL2");
    of->MovesEveryRow();
    DescribeValues(of);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Keeps(1.0 - static_cast<double>(learning_rate) * l2);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_GRADIENT_DESCENT_H_
