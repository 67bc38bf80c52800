#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

// For graphs that know nothing of deferred updates, but share variables with one that has them
// (other_sessions.h). Variables are named as in the attribute `row_states` of the update.

namespace graph_opt {
namespace {

REGISTER_OP("GroupEmbeddingCatchUpVariables")
    .Attr("references: list(string) = []")
    .Attr("handles: list(string) = []")
    .Attr("written: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Catches up all rows that deferred updates of other graphs left behind.

references: Reference variables of this device: tables, slots or others.
handles: Resource variables of this device.
written: Whether what follows may write to the variables.)doc");

REGISTER_OP("GroupEmbeddingCatchUpVariableRows")
    .Input("ids: Tindices")
    .Attr("Tindices: {int32, int64}")
    .Attr("variable: string")
    .Attr("has_handle: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Catches up the rows that a gather is about to read, those that deferred updates of other graphs
left behind.

ids: The rows, in any shape. Those that do not exist are left to the gather to report.
variable: A variable of this device.
has_handle: Whether it is a resource variable.)doc");

}  // namespace
}  // namespace graph_opt
