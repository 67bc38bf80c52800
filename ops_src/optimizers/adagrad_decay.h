#ifndef GRAPH_OPT_OPTIMIZERS_ADAGRAD_DECAY_H_
#define GRAPH_OPT_OPTIMIZERS_ADAGRAD_DECAY_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// DeepRec's AdagradDecayOptimizer: accumulators shrink from time to time, but not below their
// initial value. A row's power counts the times that its accumulator has; one that missed some
// catches up by one in each of its updates. Every column of a row has the same power.
struct AdagradDecay : Spec {
  static constexpr int kSlots = 2;
  float learning_rate;
  float accumulator_decay_rate;
  float initial_accumulator_value;
  float decays_due;  // since training began

  template <typename Description>
  void Describe(Description* of) {
    of->Name("AdagradDecay");
    of->Slot("accumulator", 0.1f);
    of->Slot("accumulator_decay_power", 0);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("accumulator_decay_rate", &accumulator_decay_rate, 0.875f);
    of->Hyperparameter("initial_accumulator_value", &initial_accumulator_value, 0.1f);
    of->Hyperparameter("decays_due", &decays_due, 1.0f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator, V* power) const {
    const V one = V{} + 1.0f;
    const V due = Lanes::Greatest(Lanes::Least(decays_due - *power, one), V{});  // 0 or 1
    const V kept = due * accumulator_decay_rate + (one - due);
    *power += due;
    *accumulator = Lanes::Greatest(*accumulator * kept, due * initial_accumulator_value);
    *accumulator += gradient * gradient;
    *weights -= learning_rate * gradient / Lanes::SquareRoot(*accumulator);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_ADAGRAD_DECAY_H_
