#include "kernels/dynamic/dynamic_shapes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

using tensorflow::shape_inference::NoOutputs;
using tensorflow::shape_inference::ScalarShape;

Status ExportShape(InferenceContext* c) {
  int num_slots;
  TF_RETURN_IF_ERROR(c->GetAttr("num_slots", &num_slots));
  const DimensionHandle rows = c->UnknownDim();
  const ShapeHandle matrix = c->Matrix(rows, WidthOfHandle(c, 0));
  c->set_output(0, c->Vector(rows));
  for (int i = 0; i < 1 + num_slots; ++i) c->set_output(1 + i, matrix);
  c->set_output(2 + num_slots, c->Vector(rows));
  c->set_output(3 + num_slots, c->Vector(rows));
  return Status();
}

Status EqualVectors(InferenceContext* c) {
  const ShapeHandle vector = c->Vector(c->UnknownDim());
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, vector);
  return Status();
}

Status RowsOfKeysShape(InferenceContext* c) {
  const DimensionHandle rows = c->UnknownDim();
  c->set_output(0, c->Vector(rows));
  c->set_output(1, c->Matrix(rows, WidthOfHandle(c, 0)));
  return Status();
}

Status SizeShape(InferenceContext* c) {
  c->set_output(0, c->Vector(2));
  return Status();
}

Status MetadataShape(InferenceContext* c) {
  c->set_output(0, c->input(1));
  c->set_output(1, c->input(1));
  return Status();
}

REGISTER_OP("DynamicTableExport")
    .Input("table: resource")
    .Input("slots: num_slots * resource")
    .Input("first: int64")
    .Input("count: int64")
    .Output("keys: int64")
    .Output("values: float")
    .Output("slot_values: num_slots * float")
    .Output("frequencies: int64")
    .Output("versions: int64")
    .Attr("num_slots: int >= 0")
    .SetIsStateful()
    .SetShapeFn(ExportShape)
    .Doc(R"doc(
A block of a dynamic table's rows, all as they were at one moment. Blocks are in an order that stays
the same while no rows come or go.

slots: Handles of slots of the table.
first: Number of the first row, of those that there are.
count: The most rows to give; -1 for all that follow.
keys: [n].
values: [n, width].
slot_values: [n, width] each.
frequencies: [n]. How often each key was looked up.
versions: [n]. The step of each row's last update, or -1.)doc");

REGISTER_OP("DynamicTableRowsSince")
    .Input("table: resource")
    .Input("time: int64")
    .Output("keys: int64")
    .Output("values: float")
    .Attr("written: bool")
    .SetIsStateful()
    .SetShapeFn(RowsOfKeysShape)
    .Doc(R"doc(
The rows of a dynamic table that were looked up or written after a moment.

time: In microseconds since 1970.
keys: [n].
values: [n, width].
written: Only those that were written, or made.)doc");

REGISTER_OP("DynamicTableExportFiltered")
    .Input("table: resource")
    .Output("keys: int64")
    .Output("frequencies: int64")
    .Output("versions: int64")
    .SetIsStateful()
    .SetShapeFn(EqualVectors)
    .Doc(R"doc(
The keys that a dynamic table has counted, but not yet given a row.)doc");

REGISTER_OP("DynamicTableImport")
    .Input("table: resource")
    .Input("slots: num_slots * resource")
    .Input("keys: int64")
    .Input("values: float")
    .Input("slot_values: num_slots * float")
    .Input("frequencies: int64")
    .Input("versions: int64")
    .Attr("num_slots: int >= 0")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Gives keys their rows, admitted or not. Slots that are not given have their initial values.

slots: Handles of slots of the table.
keys: [n].
values: [n, width], or empty: what rows have, or begin with.
slot_values: [n, width] each.
frequencies: [n], or empty: those that keys have at least if they have rows.
versions: [n], or empty: -1.)doc");

REGISTER_OP("DynamicTableImportFiltered")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("frequencies: int64")
    .Input("versions: int64")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Tells a dynamic table how often keys without a row have occurred.

keys: [n].
frequencies: [n].
versions: [n], or empty.)doc");

REGISTER_OP("DynamicTableAssign")
    .Input("table: resource")
    .Input("keys: int64")
    .Input("values: float")
    .Attr("insert: bool = true")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Assigns rows, or their slots.

table: Handle of a dynamic table, or of a slot of one.
keys: [n].
values: [n, width].
insert: Whether keys without a row get one; otherwise they are passed over.)doc");

REGISTER_OP("DynamicTableErase")
    .Input("table: resource")
    .Input("keys: int64")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Takes rows from keys.

keys: [n]. Those without a row are passed over.)doc");

REGISTER_OP("DynamicTableSize")
    .Input("table: resource")
    .Output("size: int64")
    .SetIsStateful()
    .SetShapeFn(SizeShape)
    .Doc(R"doc(
The number of rows, and their width.)doc");

REGISTER_OP("DynamicTableMetadata")
    .Input("table: resource")
    .Input("keys: int64")
    .Output("frequencies: int64")
    .Output("versions: int64")
    .SetIsStateful()
    .SetShapeFn(MetadataShape)
    .Doc(R"doc(
How often keys were looked up, whether they have rows or not, and the step of their last update.

keys: Of any shape.
frequencies: Of the shape of keys; 0 for unknown keys.
versions: Of the shape of keys; -1 for rows that were not updated, and keys without one.)doc");

REGISTER_OP("DynamicTableEvict")
    .Input("table: resource")
    .Input("step: int64")
    .Output("keys: int64")
    .Output("values: float")
    .SetIsStateful()
    .SetShapeFn(RowsOfKeysShape)
    .Doc(R"doc(
Takes their rows from keys as the table's eviction policy says, and hands them out.

step: Number of the training step.
keys: [n].
values: [n, width].)doc");

REGISTER_OP("DynamicTableCompact")
    .Input("table: resource")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Gives memory of rows that are free back to the system.)doc");

REGISTER_OP("DynamicTableEndEpoch")
    .Input("table: resource")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Lets later lookups belong to another epoch, by which a table may evict.)doc");

REGISTER_OP("DynamicTableMetrics")
    .Input("table: resource")
    .Output("metrics: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
What a dynamic table holds and has done, as JSON.)doc");

}  // namespace
}  // namespace graph_opt
