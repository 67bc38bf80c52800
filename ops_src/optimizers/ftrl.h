#ifndef GRAPH_OPT_OPTIMIZERS_FTRL_H_
#define GRAPH_OPT_OPTIMIZERS_FTRL_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// tf.train.FtrlOptimizer; V2 has l2_shrinkage.
struct Ftrl : Spec {
  static constexpr int kSlots = 2;
  float learning_rate;
  float l1;
  float l2;
  float l2_shrinkage;
  float learning_rate_power;
  bool multiply_linear_by_lr;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("Ftrl");
    of->StockOp(
        "SparseApplyFtrl(table, accumulator, linear, gradient, rows, learning_rate, l1, l2, "
        "learning_rate_power)");
    of->StockOp(
        "SparseApplyFtrlV2(table, accumulator, linear, gradient, rows, learning_rate, l1, "
        "l2, l2_shrinkage, learning_rate_power)");
    of->Slot("accumulator", 0.1f);
    of->Slot("linear", 0);
    of->Flag("multiply_linear_by_lr", &multiply_linear_by_lr, false);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f,
                       multiply_linear_by_lr ? Bound::kNotNegative : Bound::kPositive);
    of->Hyperparameter("l1", &l1, 0.015625f, Bound::kNotNegative);
    of->Hyperparameter("l2", &l2, 0.03125f, Bound::kNotNegative);
    of->Hyperparameter("l2_shrinkage", &l2_shrinkage, 0.0625f, Bound::kNotNegative);
    of->Hyperparameter("learning_rate_power", &learning_rate_power, -0.5f, Bound::kNotPositive);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator, V* linear) const {
    const V shrunk = l2_shrinkage == 0 ? gradient : gradient + 2.0f * l2_shrinkage * *weights;
    const V grown = *accumulator + gradient * gradient;
    const V power = Power<Lanes>(grown);
    const V change = power - Power<Lanes>(*accumulator);
    V quadratic;
    V bound;
    if (multiply_linear_by_lr) {
      *linear += shrunk * learning_rate - change * *weights;
      quadratic = power + 2.0f * l2 * learning_rate;
      bound = V{} + l1 * learning_rate;
    } else {
      *linear += shrunk - change / learning_rate * *weights;
      quadratic = power / learning_rate + 2.0f * l2;
      bound = V{} + l1;
    }
    *weights = (Lanes::Greatest(Lanes::Least(*linear, bound), -bound) - *linear) / quadratic;
    *accumulator = grown;
  }

 private:
  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA V Power(V x) const {
    if (learning_rate_power == -0.5f) return Lanes::SquareRoot(x);
    return Lanes::Power(x, -learning_rate_power);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_FTRL_H_
