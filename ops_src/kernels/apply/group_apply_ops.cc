#include <string>

#include "kernels/apply/optimizer_attributes.h"
#include "kernels/lookup/group_attributes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

const char kDoc[] = R"doc(
Updates the rows that a group lookup looked up, from the gradients of the pooled rows.

Each row is read and written once, with the sum of its gradients in the order of lookups and ids;
other rows are not touched. Results are those of TensorFlow's sparse apply ops. Some optimizers, such
as Adam, TensorFlow applies to whole tables, since rows without a gradient move, too. These are left
as they are, or with row_states for later: GroupEmbeddingCatchUp then moves them as TensorFlow
would have, before they are read.

tables: The shards of each table, [rows, width] of float32.
gradients: Of the pooled rows.
num_gradients: L, or 1 with columns.)doc";

REGISTER_OP("GroupEmbeddingApply")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Input("hyperparameters: num_hyperparameters * float")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: num_gradients * float")
    .GRAPH_OPT_OPTIMIZER_ATTRS.Attr("num_gradients: int >= 1")
    .GRAPH_OPT_ROW_LOG_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(GroupDoc(OptimizerDoc(RowLogsDoc(kDoc))));

REGISTER_OP("ResourceGroupEmbeddingApply")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Input("hyperparameters: num_hyperparameters * float")
    .GRAPH_OPT_GROUP_INPUTS.Input("gradients: num_gradients * float")
    .GRAPH_OPT_OPTIMIZER_ATTRS.Attr("num_gradients: int >= 1")
    .GRAPH_OPT_ROW_LOG_ATTRS.GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(GroupDoc(OptimizerDoc(RowLogsDoc(kDoc))));

}  // namespace
}  // namespace graph_opt
