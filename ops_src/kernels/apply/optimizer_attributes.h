#ifndef GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_ATTRIBUTES_H_
#define GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_ATTRIBUTES_H_

#include <string>

// What the registrations of updates share about their optimizer (read by OptimizerInputs).

#define GRAPH_OPT_OPTIMIZER_ATTRS                                               \
  Attr("optimizer: {'GradientDescent', 'Momentum', 'Adagrad', 'Ftrl', 'Adam'}") \
      .Attr("num_slots: int >= 0")                                              \
      .Attr("num_hyperparameters: int >= 1")                                    \
      .Attr("use_nesterov: bool = false")                                       \
      .Attr("update_slots: bool = true")                                        \
      .Attr("multiply_linear_by_lr: bool = false")                              \
      .Attr("use_locking: bool = false")

namespace graph_opt {

inline std::string OptimizerDoc(const std::string& doc) {
  return doc + R"doc(
slots: Those of the optimizer: the first slot of every shard, then the second one of every shard.
  Momentum: momentum; Adagrad: accumulator; Ftrl: accumulator, linear; Adam: m, v.
hyperparameters: Scalars, in this order.
  GradientDescent: learning rate. Momentum: learning rate, momentum. Adagrad: learning rate,
  epsilon (0 where the optimizer has none). Ftrl: learning rate, l1, l2, l2_shrinkage,
  learning_rate_power. Adam: learning rate, beta1, beta2, epsilon, beta1_power, beta2_power.
optimizer: The rule.
num_slots: Shards times the optimizer's slots.
num_hyperparameters: As listed above.
use_nesterov: Momentum only.
update_slots: Adagrad only.
multiply_linear_by_lr: Ftrl only.
use_locking: Lock the variables exclusively.)doc";
}

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_APPLY_OPTIMIZER_ATTRIBUTES_H_
