#ifndef GRAPH_OPT_OPTIMIZERS_ADADELTA_H_
#define GRAPH_OPT_OPTIMIZERS_ADADELTA_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// tf.train.AdadeltaOptimizer, and Keras'. Only averages of rows with a gradient decay.
struct Adadelta : Spec {
  static constexpr int kSlots = 2;
  static constexpr bool kTellsColumns = true;
  float learning_rate;
  float rho;
  float epsilon;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("Adadelta");
    of->StockOp(
        "SparseApplyAdadelta(table, accumulator, accumulated_update, learning_rate, rho, epsilon, "
        "gradient, rows)");
    of->Slot("accumulator", 0);
    of->Slot("accumulated_update", 0);
    of->Hyperparameter("learning_rate", &learning_rate, 0.5f);
    of->Hyperparameter("rho", &rho, 0.875f);
    of->Hyperparameter("epsilon", &epsilon, 0.0078125f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator,
                                V* accumulated_update) const {
    *accumulator = *accumulator * rho + gradient * gradient * (1.0f - rho);
    const V update = Lanes::SquareRoot(*accumulated_update + epsilon) *
                     Lanes::ReciprocalRoot(*accumulator + epsilon) * gradient;
    *weights -= update * learning_rate;
    *accumulated_update = *accumulated_update * rho + update * update * (1.0f - rho);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_ADADELTA_H_
