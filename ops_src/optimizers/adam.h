#ifndef GRAPH_OPT_OPTIMIZERS_ADAM_H_
#define GRAPH_OPT_OPTIMIZERS_ADAM_H_

#include <math.h>

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// Hyperparameters of Adam, and the rate with which it corrects its moments.
struct AdamRates : Spec {
  static constexpr int kSlots = 2;
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float beta1_power;
  float beta2_power;
  float corrected_rate;

  template <typename Description>
  void DescribeMoments(Description* of) {
    of->Slot("m", 0);
    of->Slot("v", 0);
  }

  template <typename Description>
  void DescribeValues(Description* of) {
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("beta1", &beta1, 0.875f);
    of->Hyperparameter("beta2", &beta2, 0.9375f);
    of->Hyperparameter("epsilon", &epsilon, 0.0078125f);
    of->Hyperparameter("beta1_power", &beta1_power, 0.875f);
    of->Hyperparameter("beta2_power", &beta2_power, 0.9375f);
  }

  void Prepare() {
    corrected_rate = learning_rate * (sqrtf(1.0f - beta2_power) / (1.0f - beta1_power));
  }

 protected:
  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void MoveMoments(V gradient, V* m, V* v) const {
    *m = *m * beta1 + gradient * (1.0f - beta1);
    *v = *v * beta2 + gradient * gradient * (1.0f - beta2);
  }
};

// tf.train.AdamOptimizer. With sparse gradients TensorFlow writes it as many ops over the whole
// table: moments decay in every row, and by them every row moves.
struct Adam : AdamRates {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("Adam");
    of->StockOp(
        "ApplyAdam(table, m, v, beta1_power, beta2_power, learning_rate, beta1, beta2, epsilon, "
        "gradient)");
    of->MovesEveryRow();
    DescribeMoments(of);
    DescribeValues(of);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* m, V* v) const {
    MoveMoments<Lanes>(gradient, m, v);
    *weights -= corrected_rate * *m / (Lanes::SquareRoot(*v) + epsilon);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, beta1);
    of->Decays(1, beta2);
    of->Moves(corrected_rate, 0, 1, epsilon);
  }
};

// AMSGrad, as Keras' Adam(amsgrad=True): divides by the greatest v so far. That is as it was in
// rows without gradient, whose v only decays.
struct AMSGrad : Adam {
  static constexpr int kSlots = 3;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("AMSGrad");
    of->StockOp(
        "ApplyAdamWithAmsgrad(table, m, v, greatest_v, beta1_power, beta2_power, learning_rate, "
        "beta1, beta2, epsilon, gradient)");
    of->MovesEveryRow();
    DescribeMoments(of);
    of->Slot("greatest_v", 0);
    DescribeValues(of);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* m, V* v, V* greatest_v) const {
    MoveMoments<Lanes>(gradient, m, v);
    *greatest_v = Lanes::Greatest(*greatest_v, *v);
    *weights -= corrected_rate * *m / (Lanes::SquareRoot(*greatest_v) + epsilon);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, beta1);
    of->Decays(1, beta2);
    of->Moves(corrected_rate, 0, 2, epsilon);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_ADAM_H_
