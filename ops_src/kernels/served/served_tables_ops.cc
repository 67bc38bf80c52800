#include <string>
#include <vector>

#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

#define GRAPH_OPT_SERVED_ATTRS                \
  Attr("tables: string")                      \
      .Attr("table_names: list(string) >= 1") \
      .Attr("table_dtypes: list(type) >= 1")  \
      .Attr("table_shapes: list(shape) >= 1")

const char kAttrsDoc[] = R"doc(
tables: What the tables are kept as in a session: the same for all ops of an export.
table_names: [T]. Of their variables, for files and messages.
table_dtypes: [T].
table_shapes: [T]. Known.
)doc";

std::string ServedDoc(const std::string& doc) { return doc + kAttrsDoc; }

Status TablesShape(InferenceContext* c) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("table_shapes", &shapes));
  for (int i = 0; i < c->num_outputs() && i < static_cast<int>(shapes.size()); ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(i, shape);
  }
  return Status();
}

REGISTER_OP("OpenServedTables")
    .Input("list_file: string")
    .GRAPH_OPT_SERVED_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(ServedDoc(R"doc(
Maps the tables of an exported graph from files.

list_file: Lists the files; the assets of a SavedModel have it.)doc"));

REGISTER_OP("ServedTables")
    .Output("values: table_dtypes")
    .GRAPH_OPT_SERVED_ATTRS.SetIsStateful()
    .SetShapeFn(TablesShape)
    .Doc(ServedDoc(R"doc(
The tables that OpenServedTables has mapped, in the memory of their files; all of one version.

values: [T].)doc"));

REGISTER_OP("UpdateServedTables")
    .Input("folder: string")
    .Output("version: int64")
    .GRAPH_OPT_SERVED_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(ServedDoc(R"doc(
Has ServedTables give those of an update from now on.

folder: Of the update; or of the export, to take updates back; empty: changes nothing.
version: The number of what is served: 1 after OpenServedTables, and one more after each update.)doc"));

}  // namespace
}  // namespace graph_opt
