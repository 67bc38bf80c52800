#include <string>
#include <vector>

#include "kernels/lookup/group_attributes.h"
#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

// As the rows that were read, which come before the last input.
Status RefreshShape(InferenceContext* c) {
  const int num_pooled = c->num_outputs() - 1;
  const int first_read = c->num_inputs() - 1 - num_pooled;
  for (int i = 0; i < num_pooled; ++i) c->set_output(i, c->input(first_read + i));
  c->set_output(num_pooled, c->Vector(2));
  return Status();
}

Status CountsShape(InferenceContext* c) {
  std::vector<std::string> tables;
  TF_RETURN_IF_ERROR(c->GetAttr("tables", &tables));
  c->set_output(0, c->Matrix(static_cast<int64_t>(tables.size()), 6));
  c->set_output(1, c->Scalar());
  return Status();
}

Status PositionShape(InferenceContext* c) {
  std::vector<std::string> logs;
  TF_RETURN_IF_ERROR(c->GetAttr("row_logs", &logs));
  c->set_output(0, c->Vector(static_cast<int64_t>(logs.size())));
  return Status();
}

const char kRefreshDoc[] = R"doc(
Refreshes the result of a group lookup that ran ahead: it is then that of the same lookup now,
but for updates that rows may miss.

Bags are pooled again if one of their rows may have been written since; all others stay as they are.

tables: The shards of each table, [rows, width].
read: What the lookup returned.
log_position: [shards]. What RowLogPosition returned before the lookup ran.
pooled: As read, with the rows as they are now.
ids_changed: [2]. How many ids were looked up ahead, and how many of them have a row that may have
  changed; without those of tables that no position was taken of.
pooled_dtypes: [L], or [1] with columns. The type of each lookup's table.
row_logs: For each shard, the container and name of the log of its updates: `container:name`, or the
  name alone; empty: its rows stay as they were read.
may_miss: Empty, or for each shard how many updates its rows may miss; empty: none.
ahead_choice: What learns how many bags are pooled again, and chooses which tables are looked up
  ahead; empty: all.
refresh_counts: The name by which GroupEmbeddingRefreshCounts knows what this op counts; empty: it
  counts nothing.)doc";

REGISTER_OP("GroupEmbeddingRefresh")
    .Input("tables: table_dtypes")
    .GRAPH_OPT_GROUP_INPUTS.Input("read: pooled_dtypes")
    .Input("log_position: int64")
    .Output("pooled: pooled_dtypes")
    .Output("ids_changed: int64")
    .Attr("table_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("row_logs: list(string) >= 1")
    .Attr("may_miss: list(int) = []")
    .Attr("ahead_choice: string = ''")
    .Attr("refresh_counts: string = ''")
    .GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(RefreshShape)
    .Doc(GroupDoc(std::string(kRefreshDoc) + R"doc(
table_dtypes: One for each shard.)doc"));

REGISTER_OP("ResourceGroupEmbeddingRefresh")
    .Input("tables: num_shards * resource")
    .GRAPH_OPT_GROUP_INPUTS.Input("read: pooled_dtypes")
    .Input("log_position: int64")
    .Output("pooled: pooled_dtypes")
    .Output("ids_changed: int64")
    .Attr("pooled_dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("row_logs: list(string) >= 1")
    .Attr("may_miss: list(int) = []")
    .Attr("ahead_choice: string = ''")
    .Attr("refresh_counts: string = ''")
    .GRAPH_OPT_GROUP_ATTRS.SetIsStateful()
    .SetShapeFn(RefreshShape)
    .Doc(GroupDoc(kRefreshDoc));

REGISTER_OP("GroupEmbeddingRefreshCounts")
    .Output("counts: int64")
    .Output("made: int64")
    .Attr("refresh_counts: string")
    .Attr("tables: list(string) >= 1")
    .SetIsStateful()
    .SetShapeFn(CountsShape)
    .Doc(R"doc(
What an op that refreshes rows has counted in all steps so far.

counts: [tables, 6]. How many steps used rows of a table; in how many of them the step looked all of
  them up itself; and in the others, how many ids were looked up ahead, how many of them had a row
  that may have changed, how many bags they made, and how many bags had such an id.
made: A number that counts of other sessions or servers do not have.
refresh_counts: As the op has it.
tables: The name of each table of the op; empty: of rows that are not refreshed.)doc");

REGISTER_OP("RowLogPosition")
    .Input("batch: T")
    .Output("position: int64")
    .Attr("T: list(type) >= 1")
    .Attr("row_logs: list(string) >= 1")
    .Attr("table_shards: list(int) = []")
    .Attr("ahead_choice: string = ''")
    .SetIsStateful()
    .SetShapeFn(PositionShape)
    .Doc(R"doc(
How many updates of each variable have been logged. What is read after this either has them, or they
are found in the log later.

batch: What the lookup of the rows that are read next takes, so that this runs for each batch as it
  does; not looked at.
position: [variables]. -1 for variables of a server, which others may write, and those without a log.
row_logs: For each variable, the container and name of its log; may be empty.
table_shards: How many of the variables each table has.
ahead_choice: The name of what has learnt of which tables bags are pooled again; empty: all have a
  position. A table without a log is always looked up ahead.)doc");

REGISTER_OP("RowLogAll")
    .Attr("row_logs: list(string) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Logs a change of all rows when the step ends. For steps that write variables other than by an update
that logs its rows.

row_logs: For each variable, the container and name of its log.)doc");

}  // namespace
}  // namespace graph_opt
