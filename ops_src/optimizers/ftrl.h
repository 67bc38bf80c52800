#ifndef GRAPH_OPT_OPTIMIZERS_FTRL_H_
#define GRAPH_OPT_OPTIMIZERS_FTRL_H_

#include <math.h>

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

struct FtrlValues : Spec {
  static constexpr int kSlots = 2;
  float learning_rate;
  float l1;
  float l2;
  float l2_shrinkage;
  float learning_rate_power;

  template <typename Description>
  void DescribeSlots(Description* of) {
    of->Slot("accumulator", 0.1f);
    of->Slot("linear", 0);
  }

  template <typename Description>
  void DescribeValues(Bound of_rate, Description* of) {
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f, of_rate);
    of->Hyperparameter("l1", &l1, 0.015625f, Bound::kNotNegative);
    of->Hyperparameter("l2", &l2, 0.03125f, Bound::kNotNegative);
    of->Hyperparameter("l2_shrinkage", &l2_shrinkage, 0.0625f, Bound::kNotNegative);
    of->Hyperparameter("learning_rate_power", &learning_rate_power, -0.5f, Bound::kNotPositive);
  }

 protected:
  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA V Power(V x) const {
    if (learning_rate_power == -0.5f) return Lanes::SquareRoot(x);
    return Lanes::Power(x, -learning_rate_power);
  }
};

// tf.train.FtrlOptimizer; V2 has l2_shrinkage.
struct Ftrl : FtrlValues {
  static constexpr bool kTellsColumns = true;
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
    DescribeSlots(of);
    of->Flag("multiply_linear_by_lr", &multiply_linear_by_lr, false);
    DescribeValues(multiply_linear_by_lr ? Bound::kNotNegative : Bound::kPositive, of);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator, V* linear) const {
    const V shrunk = l2_shrinkage == 0 ? gradient : gradient + 2.0f * l2_shrinkage * *weights;
    const V grown = *accumulator + gradient * gradient;
    const V power = Power<Lanes>(grown);
    const V change = Change<Lanes>(grown, power, *accumulator);
    V added;
    V taken;
    V quadratic;
    V bound;
    if (multiply_linear_by_lr) {
      added = shrunk * learning_rate;
      taken = change * *weights;
      quadratic = power + 2.0f * l2 * learning_rate;
      bound = V{} + l1 * learning_rate;
    } else {
      added = shrunk;
      taken = change / learning_rate * *weights;
      quadratic = power / learning_rate + 2.0f * l2;
      bound = V{} + l1;
    }
    *linear = Lanes::kOneColumn ? *linear + added - taken : *linear + (added - taken);
    *weights = (Lanes::Greatest(Lanes::Least(*linear, bound), -bound) - *linear) / quadratic;
    *accumulator = grown;
  }

 private:
  // TensorFlow's loop over rows of one column has the general power here in place of a root.
  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA V Change(V grown, V power, V accumulator) const {
    if (!Lanes::kOneColumn) return power - Power<Lanes>(accumulator);
    return Lanes::Power(grown, -learning_rate_power) -
           Lanes::Power(accumulator, -learning_rate_power);
  }
};

// Ftrl with a group lasso, as DeepRec has it for EmbeddingVariables: l1 bounds the norm of a row of
// `linear` instead of each of its columns, so that rows become 0 as a whole.
struct GroupLassoFtrl : FtrlValues {
  static constexpr bool kSumsRow = true;
  float norm;  // of the row of `linear` after the step

  template <typename Description>
  void Describe(Description* of) {
    of->Name("GroupLassoFtrl");
    of->SumsRow();
    DescribeSlots(of);
    DescribeValues(Bound::kPositive, of);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA V Summand(V gradient, V weights, V accumulator, V linear) const {
    V power;
    const V moved = Linear<Lanes>(gradient, weights, accumulator, linear, &power);
    return moved * moved;
  }

  void TakeRowSum(float sum) { norm = sqrtf(sum); }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator, V* linear) const {
    V power;
    *linear = Linear<Lanes>(gradient, *weights, *accumulator, *linear, &power);
    const V quadratic = power / learning_rate + 2.0f * l2;
    *weights = norm > l1 ? *linear * (l1 - norm) / (quadratic * norm) : V{};
    *accumulator += gradient * gradient;
  }

 private:
  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA V Linear(V gradient, V weights, V accumulator, V linear, V* power) const {
    const V shrunk = l2_shrinkage == 0 ? gradient : gradient + 2.0f * l2_shrinkage * weights;
    *power = Power<Lanes>(accumulator + shrunk * shrunk);
    const V change = *power - Power<Lanes>(accumulator);
    return linear + (shrunk - change / learning_rate * weights);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_FTRL_H_
