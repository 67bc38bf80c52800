#ifndef GRAPH_OPT_OPTIMIZERS_MOMENTUM_H_
#define GRAPH_OPT_OPTIMIZERS_MOMENTUM_H_

#include "optimizers/spec.h"
#include "optimizers/with_l2.h"

namespace graph_opt {
namespace optimizers {

struct MomentumValues : Spec {
  static constexpr int kSlots = 1;
  float learning_rate;
  float momentum;
  bool use_nesterov;

  template <typename Description>
  void DescribeValues(Description* of) {
    of->Slot("accumulator", 0);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("momentum", &momentum, 0.875f);
    of->Flag("use_nesterov", &use_nesterov, false);
  }
};

// tf.train.MomentumOptimizer, with Nesterov's step on request.
struct Momentum : MomentumValues {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("Momentum");
    of->StockOp("SparseApplyMomentum(table, accumulator, learning_rate, gradient, rows, momentum)");
    DescribeValues(of);
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

  // What accumulates of a gradient, and what weights lose of what has accumulated.
  double Accumulated(float gradient) const { return gradient; }
  double Moved() const {
    return static_cast<double>(learning_rate) * (use_nesterov ? momentum : 1.0);
  }
};

// Keras' SGD with momentum: the rate is part of what accumulates.
struct KerasMomentum : MomentumValues {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("KerasMomentum");
    of->StockOp(
        "SparseApplyKerasMomentum(table, accumulator, learning_rate, gradient, rows, momentum)");
    DescribeValues(of);
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

  double Accumulated(float gradient) const {
    return -static_cast<double>(learning_rate) * gradient;
  }
  double Moved() const { return use_nesterov ? -momentum : -1.0; }
};

// Either where a script makes the gradient as large as the table: accumulators of rows without
// gradient decay, too, and move them.
template <typename Sparse>
struct DenseOf : Sparse {
  template <typename Description>
  void DescribeValues(Description* of) {
    of->MovesEveryRow();
    Sparse::DescribeValues(of);
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, this->momentum);
    of->Moves(this->Moved(), 0);
  }
};

struct DenseMomentum : DenseOf<Momentum> {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseMomentum");
    of->StockOp("ApplyMomentum(table, accumulator, learning_rate, gradient, momentum)");
    DescribeValues(of);
  }
};

struct DenseKerasMomentum : DenseOf<KerasMomentum> {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseKerasMomentum");
    of->StockOp("ApplyKerasMomentum(table, accumulator, learning_rate, gradient, momentum)");
    DescribeValues(of);
  }
};

template <typename Dense>
struct DenseWithL2 : WithL2<Dense> {
  template <typename Description>
  void Idle(Description* of) const {
    const double moved = this->Moved();
    const double of_weights = this->Accumulated(this->l2);
    const double at_once = this->use_nesterov ? double{this->learning_rate} * this->l2 : 0;
    of->Mixes(this->momentum, of_weights, -moved * this->momentum,
              1 - moved * of_weights - at_once);
  }
};

struct DenseMomentumL2 : DenseWithL2<DenseMomentum> {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseMomentumL2");
    DescribeValues(of);
  }
};

struct DenseKerasMomentumL2 : DenseWithL2<DenseKerasMomentum> {
  template <typename Description>
  void Describe(Description* of) {
    of->Name("DenseKerasMomentumL2");
    DescribeValues(of);
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_MOMENTUM_H_
