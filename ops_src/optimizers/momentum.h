#ifndef GRAPH_OPT_OPTIMIZERS_MOMENTUM_H_
#define GRAPH_OPT_OPTIMIZERS_MOMENTUM_H_

#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// tf.train.MomentumOptimizer, with Nesterov's step on request.
struct Momentum : Spec {
  static constexpr int kSlots = 1;
  float learning_rate;
  float momentum;
  bool use_nesterov;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("Momentum");
    of->StockOp("SparseApplyMomentum(table, accumulator, learning_rate, gradient, rows, momentum)");
    DescribeValues(of);
  }

  template <typename Description>
  void DescribeValues(Description* of) {
    of->Slot("accumulator", 0);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("momentum", &momentum, 0.875f);
    of->Flag("use_nesterov", &use_nesterov, false);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator) const {
    *accumulator = *accumulator * momentum + gradient;
    if (use_nesterov) {
      *weights -= learning_rate * gradient + learning_rate * momentum * *accumulator;
    } else {
      *weights -= learning_rate * *accumulator;
    }
  }
};

// The same where a script makes the gradient as large as the table: accumulators of rows without
// gradient decay, too, and move them.
struct DenseMomentum : Momentum {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseMomentum");
    of->StockOp("ApplyMomentum(table, accumulator, learning_rate, gradient, momentum)");
    of->MovesEveryRow();
    DescribeValues(of);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, momentum);
    of->Moves(static_cast<double>(learning_rate) * (use_nesterov ? momentum : 1.0), 0);
  }
};

// The same with a penalty of l2 / 2 times the squares of all weights.
struct DenseMomentumL2 : DenseMomentum {
  float l2;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseMomentumL2");
    of->MovesEveryRow();
    DescribeValues(of);
    of->Hyperparameter("l2", &l2, 0.0625f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator) const {
    Momentum::Update<Lanes>(gradient + *weights * l2, weights, accumulator);
  }

  template <typename Description>
  void Idle(Description* of) const {
    const double rate = learning_rate;
    const double of_accumulator = rate * (use_nesterov ? momentum : 1.0);
    of->Mixes(momentum, l2, -of_accumulator * momentum,
              1 - of_accumulator * l2 - (use_nesterov ? rate * l2 : 0));
  }
};

// Keras' SGD with momentum: the rate is part of what accumulates.
struct KerasMomentum : Spec {
  static constexpr int kSlots = 1;
  float learning_rate;
  float momentum;
  bool use_nesterov;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("KerasMomentum");
    of->StockOp(
        "SparseApplyKerasMomentum(table, accumulator, learning_rate, gradient, rows, momentum)");
    DescribeValues(of);
  }

  template <typename Description>
  void DescribeValues(Description* of) {
    of->Slot("accumulator", 0);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("momentum", &momentum, 0.875f);
    of->Flag("use_nesterov", &use_nesterov, false);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator) const {
    *accumulator = *accumulator * momentum - gradient * learning_rate;
    if (use_nesterov) {
      *weights += *accumulator * momentum - gradient * learning_rate;
    } else {
      *weights += *accumulator;
    }
  }
};

struct DenseKerasMomentum : KerasMomentum {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseKerasMomentum");
    of->StockOp("ApplyKerasMomentum(table, accumulator, learning_rate, gradient, momentum)");
    of->MovesEveryRow();
    DescribeValues(of);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, momentum);
    of->Moves(use_nesterov ? -momentum : -1.0, 0);
  }
};

// The same with a penalty of l2 / 2 times the squares of all weights.
struct DenseKerasMomentumL2 : DenseKerasMomentum {
  float l2;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseKerasMomentumL2");
    of->MovesEveryRow();
    DescribeValues(of);
    of->Hyperparameter("l2", &l2, 0.0625f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* accumulator) const {
    KerasMomentum::Update<Lanes>(gradient + *weights * l2, weights, accumulator);
  }

  template <typename Description>
  void Idle(Description* of) const {
    const double shrunk = static_cast<double>(learning_rate) * l2;
    const double of_accumulator = use_nesterov ? momentum : 1.0;
    of->Mixes(momentum, -shrunk, of_accumulator * momentum,
              1 - of_accumulator * shrunk - (use_nesterov ? shrunk : 0));
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_MOMENTUM_H_
