#ifndef GRAPH_OPT_OPTIMIZERS_ADAGRAD_H_
#define GRAPH_OPT_OPTIMIZERS_ADAGRAD_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// tf.train.AdagradOptimizer; V2, which Keras uses, adds epsilon to the root.
struct Adagrad : Spec {
  static constexpr int kSlots = 1;
  static constexpr bool kTellsColumns = true;
  float learning_rate;
  float epsilon;
  bool update_slots;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("Adagrad");
    of->StockOp("ApplyAdagrad(table, accumulator, learning_rate, gradient)");
    of->StockOp("ApplyAdagradV2(table, accumulator, learning_rate, epsilon, gradient)");
    of->StockOp("SparseApplyAdagrad(table, accumulator, learning_rate, gradient, rows)");
    of->StockOp("SparseApplyAdagradV2(table, accumulator, learning_rate, epsilon, gradient, rows)");
    of->Slot("accumulator", 0.1f);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("epsilon", &epsilon, 1e-3f);
    of->Flag("update_slots", &update_slots, true);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator) const {
    if (update_slots) *accumulator += gradient * gradient;
    if (epsilon == 0 && !Lanes::kOneColumn) {
      *weights -= learning_rate * gradient * Lanes::ReciprocalRoot(*accumulator);
    } else {
      *weights -= learning_rate * gradient / (Lanes::SquareRoot(*accumulator) + epsilon);
    }
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_ADAGRAD_H_
