#include <string>

#include "kernels/apply/optimizer_attributes.h"
#include "kernels/dynamic/dynamic_shapes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

using tensorflow::shape_inference::NoOutputs;
using tensorflow::shape_inference::ScalarShape;

Status LookupShape(InferenceContext* c) {
  const ShapeHandle width = c->Vector(WidthOfHandle(c, 0));
  ShapeHandle values;
  TF_RETURN_IF_ERROR(c->Concatenate(c->input(1), width, &values));
  c->set_output(0, values);
  return Status();
}

Status EvictingLookupShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(LookupShape(c));
  const DimensionHandle evicted = c->UnknownDim();
  c->set_output(1, c->Vector(evicted));
  c->set_output(2, c->Matrix(evicted, WidthOfHandle(c, 0)));
  return Status();
}

Status GroupRowsShape(InferenceContext* c) {
  int num_tables;
  int num_lookups;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &num_tables));
  TF_RETURN_IF_ERROR(c->GetAttr("num_lookups", &num_lookups));
  for (int i = 0; i < num_lookups; ++i) c->set_output(i, c->input(num_tables + i));
  c->set_output(num_lookups, c->Vector(num_tables));
  return Status();
}

REGISTER_OP("DynamicTableInitialize")
    .Input("table: resource")
    .Input("bank: float")
    .Attr("options: string")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Makes a dynamic table behind the handle of a variable, or takes all rows from the one that is there.

table: Handle of a variable [any, width] of float, which never gets a value itself.
bank: [rows, width]. The first values of new rows, by key, if the options say so; else [0, width].
options: JSON of the table's options.)doc");

REGISTER_OP("DynamicTableIsInitialized")
    .Input("table: resource")
    .Output("is_initialized: bool")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Whether the handle of a dynamic table, or of a slot of one, has been initialized.)doc");

REGISTER_OP("DynamicTableDestroy")
    .Input("table: resource")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Forgets the dynamic table, or the slot, behind a handle, if there is one.)doc");

REGISTER_OP("DynamicTableSlotInitialize")
    .Input("table: resource")
    .Input("slot: resource")
    .Attr("slot_name: string")
    .Attr("initial: float = 0")
    .Attr("options: string")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Gives a dynamic table an optimizer's slot, which lies beside each row, and has a handle of its own.

table: Handle of the table, initialized or not yet.
slot: Handle of a variable of the table's width.
slot_name: Name of the slot among those of the table.
initial: What new rows have. All rows have it from then on.
options: JSON of the table's options.)doc");

REGISTER_OP("DynamicTableLookup")
    .Input("table: resource")
    .Input("keys: key_dtype")
    .Input("counts: int64")
    .Input("defaults: float")
    .Input("insert: bool")
    .Output("values: float")
    .Attr("key_dtype: {int32, int64}")
    .SetIsStateful()
    .SetShapeFn(LookupShape)
    .Doc(R"doc(
The rows of keys.

keys: Of any shape. Any numbers, any number of times.
counts: How often each key occurred, which its frequency grows by; empty: once each.
defaults: The first values of new rows, [keys, width]; empty: those that the table gives.
insert: Whether keys without a row get one. Otherwise they read a default row.
values: Of the shape of keys, and width.)doc");

REGISTER_OP("DynamicTableLookupAndEvict")
    .Input("table: resource")
    .Input("keys: key_dtype")
    .Input("counts: int64")
    .Input("defaults: float")
    .Input("insert: bool")
    .Output("values: float")
    .Output("evicted_keys: int64")
    .Output("evicted_values: float")
    .Attr("key_dtype: {int32, int64}")
    .SetIsStateful()
    .SetShapeFn(EvictingLookupShape)
    .Doc(R"doc(
The rows of keys, as DynamicTableLookup, and those that the table gave up for new ones.

evicted_keys: [n].
evicted_values: [n, width].)doc");

REGISTER_OP("GroupDynamicRows")
    .Input("tables: N * resource")
    .Input("ids: id_dtypes")
    .Input("insert: bool")
    .Output("rows: num_lookups * int64")
    .Output("table_rows: int64")
    .Attr("N: int >= 1")
    .Attr("num_lookups: int >= 1")
    .Attr("id_dtypes: list({int32, int64}) >= 1")
    .Attr("lookup_tables: list(int) >= 1")
    .Attr("table_names: list(string) >= 1")
    .Attr("table_shards: list(int) = []")
    .Attr("partition_strategies: list({'key', 'key1000'}) = []")
    .Attr("skip_negative: bool = false")
    .SetIsStateful()
    .SetShapeFn(GroupRowsShape)
    .Doc(R"doc(
The numbers of rows of keys, which other ops take as ids. As long as anyone keeps a tensor of them,
the table neither moves nor evicts these rows.

tables: The parts of each table.
ids: Keys of each lookup, of any shape.
insert: Whether keys without a row get one, and occurrences are counted. Otherwise such keys have
  the number of a default row, which updates pass over.
rows: Of the shapes of ids. In a table of P parts, row r of part p is r * P + p, which is how ids
  are assigned to parts with the partition strategy mod.
table_rows: [N]. Numbers of rows in each part are below: for GroupEmbeddingGrad.
lookup_tables: [L]. The table of each lookup.
table_names: [T]. For error messages.
table_shards: Empty, or [T]: the number of parts of each table; empty: one each.
partition_strategies: Empty, or [T]: the part that has a key is, by their non-negative remainders,
  key mod P, or with key1000, key mod 1000 mod P.
skip_negative: Keys below 0 have row -1, and get none.)doc");

const char kApplyDoc[] = R"doc(
Updates the rows of keys, each once, with the sum of its gradients in their order. Keys without a row
are passed over, and rows of other keys stay as they are, whatever the optimizer.

table: Handle of the table.
keys: [n]. Any number of times.
gradients: [n, width].)doc";

REGISTER_OP("DynamicTableApply")
    .Input("table: resource")
    .Input("slots: num_slots * resource")
    .Input("hyperparameters: num_hyperparameters * float")
    .Input("keys: key_dtype")
    .Input("gradients: float")
    .GRAPH_OPT_OPTIMIZER_ATTRS.Attr("key_dtype: {int32, int64}")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(OptimizerDoc(kApplyDoc));

REGISTER_OP("DynamicTableSetStep")
    .Input("tables: N * resource")
    .Input("step: int64")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Tells tables the number of the training step, which rows are stamped with that are updated.)doc");

}  // namespace
}  // namespace graph_opt
