#include <string>

#include "lookup/group_attributes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

#define APPLY_ATTRS                                                             \
  Attr("optimizer: {'GradientDescent', 'Momentum', 'Adagrad', 'Ftrl', 'Adam'}") \
      .Attr("num_slots: int >= 0")                                              \
      .Attr("num_hyperparameters: int >= 1")                                    \
      .Attr("num_gradients: int >= 1")                                          \
      .Attr("use_nesterov: bool = false")                                       \
      .Attr("update_slots: bool = true")                                        \
      .Attr("multiply_linear_by_lr: bool = false")                              \
      .Attr("use_locking: bool = false")

const char kDoc[] = R"doc(
Updates the rows that a group lookup looked up, from the gradients of the pooled rows.

Each row is read and written once, with the sum of its gradients in the order of lookups and ids;
other rows are not touched. The numbers are those of TensorFlow's sparse apply ops. Adam is the
row-wise rule: moments of rows that were not looked up do not decay.

tables: The shards of each table, [rows, width] of float32.
slots: Those of the optimizer: the first slot of every shard, then the second one of every shard.
  Momentum: momentum; Adagrad: accumulator; Ftrl: accumulator, linear; Adam: m, v.
hyperparameters: Scalars, in this order.
  GradientDescent: learning rate. Momentum: learning rate, momentum. Adagrad: learning rate,
  epsilon (0 where the optimizer has none). Ftrl: learning rate, l1, l2, l2_shrinkage,
  learning_rate_power. Adam: learning rate, beta1, beta2, epsilon, beta1_power, beta2_power.
gradients: Of the pooled rows.
optimizer: The rule.
num_slots: Shards times the optimizer's slots.
num_hyperparameters: As listed above.
num_gradients: L, or 1 with columns.
use_nesterov: Momentum only.
update_slots: Adagrad only.
multiply_linear_by_lr: Ftrl only.
use_locking: Lock the variables exclusively.)doc";

REGISTER_OP("GroupEmbeddingApply")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Input("hyperparameters: num_hyperparameters * float")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: num_gradients * float")
    .APPLY_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(GroupDoc(kDoc));

REGISTER_OP("ResourceGroupEmbeddingApply")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Input("hyperparameters: num_hyperparameters * float")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: num_gradients * float")
    .APPLY_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(GroupDoc(kDoc));

#undef APPLY_ATTRS

}  // namespace
}  // namespace graph_opt
