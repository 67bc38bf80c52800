#ifndef GRAPH_OPT_OPTIMIZERS_RMS_PROP_H_
#define GRAPH_OPT_OPTIMIZERS_RMS_PROP_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

struct RMSPropValues : Spec {
  static constexpr bool kTellsColumns = true;
  float learning_rate;
  float rho;
  float momentum;
  float epsilon;

  template <typename Description>
  void DescribeValues(Description* of) {
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("rho", &rho, 0.875f);
    of->Hyperparameter("momentum", &momentum, 0.75f);
    of->Hyperparameter("epsilon", &epsilon, 1e-3f);
  }
};

// tf.train.RMSPropOptimizer, and Keras' with momentum. Only averages of rows with a gradient decay.
struct RMSProp : RMSPropValues {
  static constexpr int kSlots = 2;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("RMSProp");
    of->StockOp(
        "SparseApplyRMSProp(table, mean_square, moment, learning_rate, rho, momentum, epsilon, "
        "gradient, rows)");
    of->Slot("mean_square", 1);
    of->Slot("moment", 0);
    DescribeValues(of);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* mean_square, V* moment) const {
    *mean_square = *mean_square * rho + gradient * gradient * (1.0f - rho);
    *moment = *moment * momentum +
              Lanes::ReciprocalRoot(*mean_square + epsilon) * learning_rate * gradient;
    *weights -= *moment;
  }
};

// The same with centered=True: gradients are divided by their standard deviation.
struct CenteredRMSProp : RMSPropValues {
  static constexpr int kSlots = 3;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("CenteredRMSProp");
    of->StockOp(
        "SparseApplyCenteredRMSProp(table, mean, mean_square, moment, learning_rate, rho, "
        "momentum, epsilon, gradient, rows)");
    of->Slot("mean", 0);
    of->Slot("mean_square", 1);
    of->Slot("moment", 0);
    DescribeValues(of);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* mean, V* mean_square, V* moment) const {
    *mean_square = *mean_square * rho + gradient * gradient * (1.0f - rho);
    *mean = *mean * rho + gradient * (1.0f - rho);
    const V variance = *mean_square + epsilon - *mean * *mean;
    *moment = *moment * momentum + Lanes::ReciprocalRoot(variance) * learning_rate * gradient;
    *weights -= *moment;
  }
};

// Keras' without momentum, several ops: the averages of all rows decay, but only rows with a
// gradient move.
struct KerasRMSProp : Spec {
  static constexpr int kSlots = 1;
  float learning_rate;
  float rho;
  float epsilon;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("KerasRMSProp");
    of->MovesEveryRow();
    of->Slot("mean_square", 0);
    DescribeValues(of);
  }

  template <typename Description>
  void DescribeValues(Description* of) {
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("rho", &rho, 0.875f);
    of->Hyperparameter("epsilon", &epsilon, 1e-3f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* mean_square) const {
    *mean_square = *mean_square * rho + gradient * gradient * (1.0f - rho);
    *weights -= learning_rate * gradient / (Lanes::SquareRoot(*mean_square) + epsilon);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, rho);
  }
};

// That with centered=True.
struct KerasCenteredRMSProp : KerasRMSProp {
  static constexpr int kSlots = 2;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("KerasCenteredRMSProp");
    of->MovesEveryRow();
    of->Slot("mean_square", 0);
    of->Slot("mean", 0);
    DescribeValues(of);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* mean_square, V* mean) const {
    *mean_square = *mean_square * rho + gradient * gradient * (1.0f - rho);
    *mean = *mean * rho + gradient * (1.0f - rho);
    const V variance = *mean_square - *mean * *mean;
    *weights -= learning_rate * gradient / (Lanes::SquareRoot(variance) + epsilon);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, rho);
    of->Decays(1, rho);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_RMS_PROP_H_
