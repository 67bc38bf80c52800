#ifndef GRAPH_OPT_OPTIMIZERS_ADAM_W_H_
#define GRAPH_OPT_OPTIMIZERS_ADAM_W_H_

#include "optimizers/adam.h"
#include "optimizers/spec.h"

namespace graph_opt {
namespace optimizers {

// AdamW as scripts for TensorFlow 1 write it (BERT's AdamWeightDecayOptimizer): moments are not
// corrected, and weights decay beside them. Scripts compute 1 - beta in double precision, so that
// it is a hyperparameter of its own.
struct AdamW : Spec {
  static constexpr int kSlots = 2;
  float learning_rate;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float epsilon;
  float weight_decay;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("AdamW");
    of->MovesEveryRow();
    of->Slot("m", 0);
    of->Slot("v", 0);
    of->Hyperparameter("learning_rate", &learning_rate, 0.125f);
    of->Hyperparameter("beta1", &beta1, 0.875f);
    of->Hyperparameter("one_minus_beta1", &one_minus_beta1, 0.125f);
    of->Hyperparameter("beta2", &beta2, 0.9375f);
    of->Hyperparameter("one_minus_beta2", &one_minus_beta2, 0.0625f);
    of->Hyperparameter("epsilon", &epsilon, 0.0078125f);
    of->Hyperparameter("weight_decay", &weight_decay, 0.0625f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* m, V* v) const {
    *m = *m * beta1 + gradient * one_minus_beta1;
    *v = *v * beta2 + gradient * gradient * one_minus_beta2;
    const V direction = *m / (Lanes::SquareRoot(*v) + epsilon) + *weights * weight_decay;
    *weights -= learning_rate * direction;
  }

  template <typename Description>
  void Idle(Description* of) const {
    of->Decays(0, beta1);
    of->Decays(1, beta2);
    of->Keeps(1.0 - static_cast<double>(learning_rate) * weight_decay);
    of->Moves(learning_rate, 0, 1, epsilon);
  }
};

// DeepRec's AdamWOptimizer on variables: Adam, before which rows with a gradient lose a part of
// their weights. Others move as Adam moves them.
struct DecayingAdam : Adam {
  float weight_decay;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("DecayingAdam");
    of->MovesEveryRow();
    DescribeMoments(of);
    DescribeValues(of);
    of->Hyperparameter("weight_decay", &weight_decay, 0.0625f);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* m, V* v) const {
    *weights -= weight_decay * *weights;
    Adam::Update<Lanes>(gradient, weights, m, v);
  }
};

// AdamW of the rows that a step looked up, and of no others: moments are corrected. By default the
// decay is a part of Adam's step, as DeepRec has it for EmbeddingVariables; or the weights decay
// before the step, as DeepRec has it for other variables, and Keras.
struct LazyAdamW : AdamRates {
  float weight_decay;
  bool decays_first;

  template <typename Description>
  void Describe(Description* of) {
    of->Name("LazyAdamW");
    DescribeMoments(of);
    DescribeValues(of);
    of->Hyperparameter("weight_decay", &weight_decay, 0.0625f);
    of->Flag("decays_first", &decays_first, false);
  }

  template <typename Lanes, typename V = typename Lanes::Vector>
  GRAPH_OPT_FORMULA void Update(V gradient, V* weights, V* m, V* v) const {
    MoveMoments<Lanes>(gradient, m, v);
    const V step = *m / (Lanes::SquareRoot(*v) + epsilon);
    if (decays_first) {
      *weights -= weight_decay * *weights;
      *weights -= corrected_rate * step;
    } else {
      *weights -= corrected_rate * (step + weight_decay * *weights);
    }
  }
};

}  // namespace optimizers
}  // namespace graph_opt

#endif  // GRAPH_OPT_OPTIMIZERS_ADAM_W_H_
