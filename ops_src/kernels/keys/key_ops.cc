#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

Status KeysByOwnerShape(InferenceContext* c) {
  ShapeHandle keys;
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &keys));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &scalar));
  tensorflow::int64 num_ranks;
  TF_RETURN_IF_ERROR(c->GetAttr("num_ranks", &num_ranks));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Vector(num_ranks));
  c->set_output(2, keys);
  return Status();
}

Status AskedKeysShape(InferenceContext* c) {
  ShapeHandle vector;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &vector));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &vector));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, vector);
  return Status();
}

Status KeyRowsShape(InferenceContext* c) {
  ShapeHandle keys;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 1, &keys));
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(4), 0, &scalar));
  c->set_output(0, keys);
  return Status();
}

Status IntegerLookupShape(InferenceContext* c) {
  ShapeHandle scalar;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 0, &scalar));
  c->set_output(0, c->input(2));
  return Status();
}

REGISTER_OP("ExchangeKeysByOwner")
    .Input("occurrences: int64")
    .Input("input_ended: bool")
    .Output("requests: int64")
    .Output("splits: int32")
    .Output("places: int64")
    .Attr("num_ranks: int >= 1")
    .Attr("table_name: string")
    .Attr("table_width: int >= 0")
    .SetShapeFn(KeysByOwnerShape)
    .Doc(R"doc(
Asks ranks for the rows of the keys that they own: those whose non-negative remainder by the number
of ranks is the rank's number.

occurrences: [K].
input_ended: Whether this rank has no more batches, and only takes part until no rank has any.
requests: For rank 0, 1, ..., a header, and its keys, each once, in the order of their occurrences.
splits: [num_ranks]. How many numbers go to each.
places: [K]. The place among the keys, without headers, of each occurrence.
table_name: Name of the table, the same on all ranks.
table_width: Its number of columns.)doc");

REGISTER_OP("ExchangeAskedKeys")
    .Input("requests: int64")
    .Input("splits: int32")
    .Output("keys: int64")
    .Output("counts: int32")
    .Attr("exchange: string = ''")
    .SetShapeFn(AskedKeysShape)
    .Doc(R"doc(
The keys that all ranks ask for. Fails on all ranks with the same error if a rank has sent one in
place of keys, and with OutOfRange if the input of all ranks has ended.

requests: From ExchangeKeysByOwner, or ExchangeFailure, of each rank, rank after rank.
splits: [ranks]. How many numbers each has sent.
keys: Of rank 0, 1, ..., one after another.
counts: [ranks]. How many keys each asks for.
exchange: As that of ExchangeGather.)doc");

REGISTER_OP("KeyIndexHandleOp")
    .Output("index: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Where ResourceKeyRows keeps which key has which row of a table. It is made from the table's keys
whenever they are assigned, so that it needs neither an initializer nor a checkpoint.)doc");

REGISTER_OP("ResourceKeyRows")
    .Input("row_keys: resource")
    .Input("table: resource")
    .Input("index: resource")
    .Input("keys: int64")
    .Input("add: bool")
    .Output("rows: int64")
    .Attr("initial: {'none', 'constant', 'uniform', 'normal', 'truncated_normal'} = 'none'")
    .Attr("first: float = 0")
    .Attr("second: float = 0")
    .Attr("stream: int = 0")
    .SetIsStateful()
    .SetShapeFn(KeyRowsShape)
    .Doc(R"doc(
The rows of keys in a table whose rows are given out in the order in which keys come.

row_keys: Variable of int64, [1 + rows]: how many keys there are, then the key of each row.
table: Variable of float, [rows, width].
index: From KeyIndexHandleOp.
keys: [n]. Any numbers, any number of times.
add: Whether keys without a row get the next ones.
rows: [n]. -1 for keys without a row.
initial: How a row that is given out starts: its values depend on its key, its columns and these
  attributes alone. With 'none' it stays as it is.
first: The constant, lower bound or mean.
second: Upper bound or standard deviation.
stream: Of the table's random numbers.)doc");

REGISTER_OP("ResourceIntegerLookup")
    .Input("vocabulary: resource")
    .Input("index: resource")
    .Input("keys: int64")
    .Input("add: bool")
    .Output("ids: int64")
    .SetIsStateful()
    .SetShapeFn(IntegerLookupShape)
    .Doc(R"doc(
Numbers keys from 1 on, in the order in which they come.

vocabulary: Variable of int64, [1 + tokens]: how many keys there are, then each of them.
index: From KeyIndexHandleOp.
keys: Any numbers, any number of times.
add: Whether keys without a number get the next ones, while there are any.
ids: Of the shape of keys. 0 for keys without a number.)doc");

}  // namespace
}  // namespace graph_opt
