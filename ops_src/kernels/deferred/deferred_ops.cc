#include <string>
#include <vector>

#include "kernels/deferred/deferred_attributes.h"
#include "kernels/lookup/group_attributes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

// Updates with `row_states` leave rows behind that have no gradient, though the optimizer moves
// them. These ops make up for it, before the rows are read. They allow what is not initialized: who
// reads a table needs no slots, and an initializer may run first.

namespace graph_opt {
namespace {

Status RequestIsVector(InferenceContext* c) {
  ShapeHandle vector;
  return c->WithRank(c->input(c->num_inputs() - 1), 1, &vector);
}

const char kRowsDoc[] = R"doc(
Catches up the rows that a group lookup reads, those that deferred updates left behind.

To be run before the lookup. Ids of rows that do not exist are left to the lookup to report.)doc";

REGISTER_OP("GroupEmbeddingCatchUp")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .GRAPH_OPT_GROUP_INPUTS.GRAPH_OPT_DEFERRED_ATTRS.Attr("weights_only: bool = false")
    .GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(GroupDoc(WeightsOnlyDoc(DeferredDoc(kRowsDoc))));

REGISTER_OP("ResourceGroupEmbeddingCatchUp")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .GRAPH_OPT_GROUP_INPUTS.GRAPH_OPT_DEFERRED_ATTRS.Attr("weights_only: bool = false")
    .GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(GroupDoc(WeightsOnlyDoc(DeferredDoc(kRowsDoc))));

const char kPackedDoc[] = R"doc(
Catches up the rows that a worker asks for, those that deferred updates left behind.

To be run before GroupEmbeddingGather, which reports a malformed request.

request: From GroupEmbeddingPrepare.
num_shards: Of this server.
table_names: [shards]. For errors.)doc";

REGISTER_OP("GroupEmbeddingCatchUpPacked")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Input("request: int64")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_DEFERRED_ATTRS.Attr("weights_only: bool = false")
    .SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(RequestIsVector)
    .Doc(WeightsOnlyDoc(DeferredDoc(kPackedDoc)));

REGISTER_OP("ResourceGroupEmbeddingCatchUpPacked")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Input("request: int64")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_DEFERRED_ATTRS.Attr("weights_only: bool = false")
    .SetIsStateful()
    .SetShapeFn(RequestIsVector)
    .Doc(WeightsOnlyDoc(DeferredDoc(kPackedDoc)));

Status RequestsAreVectors(InferenceContext* c) {
  ShapeHandle vector;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(c->num_inputs() - 2), 1, &vector));
  return c->WithRank(c->input(c->num_inputs() - 1), 1, &vector);
}

const char kExchangedDoc[] = R"doc(
Catches up the rows that all ranks ask for, those that deferred updates left behind.

To be run before ExchangeGather, which reports a malformed request.

requests: As those of ExchangeGather.
splits: As there.
num_shards: Of this rank.
table_names: [shards]. For errors.
served: The numbers of the shards that requests are about, in their order.)doc";

REGISTER_OP("GroupEmbeddingCatchUpExchanged")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Input("requests: int64")
    .Input("splits: int32")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .Attr("served: list(int)")
    .GRAPH_OPT_DEFERRED_ATTRS.Attr("weights_only: bool = false")
    .SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(RequestsAreVectors)
    .Doc(WeightsOnlyDoc(DeferredDoc(kExchangedDoc)));

REGISTER_OP("ResourceGroupEmbeddingCatchUpExchanged")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Input("requests: int64")
    .Input("splits: int32")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .Attr("served: list(int)")
    .GRAPH_OPT_DEFERRED_ATTRS.Attr("weights_only: bool = false")
    .SetIsStateful()
    .SetShapeFn(RequestsAreVectors)
    .Doc(WeightsOnlyDoc(DeferredDoc(kExchangedDoc)));

const char kAllDoc[] = R"doc(
Catches up all rows that deferred updates left behind.

To be run before whatever else reads or writes the tables or their slots. Then there is nothing to
do until the next update; one that runs in the same step catches up all rows, too. If a table or
a slot is not initialized, what was kept about it is dropped.

num_shards: Of all tables.
table_names: [shards]. For errors.)doc";

REGISTER_OP("GroupEmbeddingCatchUpAll")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_DEFERRED_ATTRS.SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(DeferredDoc(kAllDoc));

REGISTER_OP("ResourceGroupEmbeddingCatchUpAll")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_DEFERRED_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(DeferredDoc(kAllDoc));

Status RateIsScalar(InferenceContext* c) {
  ShapeHandle scalar;
  return c->WithRank(c->input(c->num_inputs() - 1), 0, &scalar);
}

const char kAverageDoc[] = R"doc(
Moves averages of tables over time: each by (table - average) * rate, in all rows.

That is deferred like updates, so that it takes no time that grows with the tables. An average that
`slots` names last must be known to all other ops of the table.

rate: What is left of 1 without the decay. Outside 0 to 1, rows are moved at once.
num_shards: Of all tables.
table_names: [shards]. For errors.)doc";

REGISTER_OP("GroupEmbeddingAverage")
    .Input("tables: Ref(num_shards * float)")
    .Input("slots: Ref(num_slots * float)")
    .Input("rate: float")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_DEFERRED_ATTRS.SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn(RateIsScalar)
    .Doc(DeferredDoc(kAverageDoc));

REGISTER_OP("ResourceGroupEmbeddingAverage")
    .Input("tables: num_shards * resource")
    .Input("slots: num_slots * resource")
    .Input("rate: float")
    .Attr("num_shards: int >= 1")
    .Attr("table_names: list(string) >= 1")
    .GRAPH_OPT_DEFERRED_ATTRS.SetIsStateful()
    .SetShapeFn(RateIsScalar)
    .Doc(DeferredDoc(kAverageDoc));

}  // namespace
}  // namespace graph_opt
