#include <string>
#include <vector>

#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

// What tells how old the rows are that a step uses.
//
//   prefetch   UpdatedRowsPosition -^> lookup
//   main       update -^> LogUpdatedRows
//   sampled    next batch -> lookup again -> MeasureStaleness

namespace graph_opt {
namespace {

Status SameShapes(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(i));
  return Status();
}

Status PositionShape(InferenceContext* c) {
  std::vector<std::string> tables;
  TF_RETURN_IF_ERROR(c->GetAttr("tables", &tables));
  c->set_output(0, c->Vector(static_cast<int64_t>(tables.size())));
  return Status();
}

Status MeasureShape(InferenceContext* c) {
  std::vector<std::string> tables;
  int bins;
  TF_RETURN_IF_ERROR(c->GetAttr("tables", &tables));
  TF_RETURN_IF_ERROR(c->GetAttr("bins", &bins));
  const int64_t count = static_cast<int64_t>(tables.size());
  c->set_output(0, c->Matrix(count, bins));
  c->set_output(1, c->Matrix(count, 2));
  c->set_output(2, c->Vector(count));
  return Status();
}

REGISTER_OP("LogUpdatedRows")
    .Input("ids: T")
    .Output("same_ids: T")
    .Attr("T: list({int32, int64}) >= 1")
    .Attr("tables: list(string) >= 1")
    .Attr("shards: list(int) >= 1")
    .Attr("kept: int >= 1")
    .SetIsStateful()
    .SetShapeFn(SameShapes)
    .Doc(R"doc(
Notes which rows an update of each table writes, by reference: costs the same for any number of rows.

ids: Of the rows; those below 0 are none.
same_ids: The same, once they are noted.
tables: For each input, the table; inputs of one table are one update.
shards: For each input, the shard whose rows the ids are, or -1: they are ids of the table.
kept: How many updates of a table are kept.)doc");

REGISTER_OP("UpdatedRowsPosition")
    .Input("batch: T")
    .Output("position: int64")
    .Attr("T: list(type) >= 1")
    .Attr("tables: list(string) >= 1")
    .SetIsStateful()
    .SetShapeFn(PositionShape)
    .Doc(R"doc(
How many updates of each table LogUpdatedRows has noted.

batch: What the rows that are read next depend on, so that this runs for each batch as they do; not
  looked at.
position: [tables].)doc");

REGISTER_OP("MeasureStaleness")
    .Input("ids: id_dtypes")
    .Input("used: dtypes")
    .Input("fresh: dtypes")
    .Input("position: int64")
    .Input("first: int32")
    .Output("missed: int64")
    .Output("squares: double")
    .Output("measured: bool")
    .Attr("id_dtypes: list({int32, int64}) >= 1")
    .Attr("dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("tables: list(string) >= 1")
    .Attr("id_tables: list(int) >= 1")
    .Attr("table_shards: list(int) >= 1")
    .Attr("shard_rows: list(int) >= 1")
    .Attr("strategies: list({'mod', 'div'}) >= 1")
    .Attr("part_values: list(int) >= 1")
    .Attr("part_tables: list(int) >= 1")
    .Attr("part_columns: list(int) >= 1")
    .Attr("part_widths: list(int) >= 1")
    .Attr("bins: int >= 2")
    .Attr("least_ids: int >= 0 = 0")
    .Attr("turns: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn(MeasureShape)
    .Doc(R"doc(
Compares what was looked up ahead with what is looked up at this moment, some tables at a time.

ids: What was looked up; ids below 0 are none.
used: What the lookups returned ahead of time.
fresh: What the same lookups return now.
position: [tables]. What UpdatedRowsPosition returned before the first.
first: The table to begin with; others follow in turn until there are enough ids.
missed: [tables, bins]. How many different rows of each table 0, 1, 2, ... updates have written since;
  the last bin has those of as many or more.
squares: [tables, 2]. The sum of the squares of used - fresh, and that of fresh.
measured: [tables]. Whether it was a table's turn; all of the others is 0.
tables: Their names, as LogUpdatedRows has them.
id_tables: For each of the ids, the number of the table.
table_shards: [tables]. How many shards each has.
shard_rows: The rows of each shard, table by table.
strategies: [tables]. How ids are spread over shards, as in tf.nn.embedding_lookup.
part_values: What is compared, in parts: for each the number of the value that it is some columns of,
part_tables: the table whose rows it is made of,
part_columns: its first column,
part_widths: and how many it has; -1: all.
bins: How many numbers of missed updates are told apart.
least_ids: So many ids are enough, if they are
turns: at least one in so many. 1: always all tables.)doc");

}  // namespace
}  // namespace graph_opt
