#include <string>
#include <vector>

#include "kernels/shape_function_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::PartialTensorShape;

Status AllInputsAreScalars(InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) {
    ShapeHandle scalar;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
  }
  return Status();
}

Status PutShape(InferenceContext* c) {
  int num_places;
  TF_RETURN_IF_ERROR(c->GetAttr("num_places", &num_places));
  for (int i = c->num_inputs() - num_places; i < c->num_inputs(); ++i) {
    ShapeHandle scalar;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
  }
  return Status();
}

Status TakeShape(InferenceContext* c) {
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
  const int num_tensors = c->num_outputs();
  if (!shapes.empty() && static_cast<int>(shapes.size()) != num_tensors) {
    return tensorflow::errors::InvalidArgument("TensorBufferTake: shapes has ", shapes.size(),
                                               " entries, dtypes has ", num_tensors,
                                               "; give one shape for each dtype, or none");
  }
  for (int i = 0; i < num_tensors; ++i) {
    ShapeHandle shape = c->UnknownShape();
    if (!shapes.empty()) {
      TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    }
    c->set_output(i, shape);
  }
  return Status();
}

Status ScalarShape(InferenceContext* c) {
  c->set_output(0, c->Scalar());
  return Status();
}

Status VectorShape(InferenceContext* c) {
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return Status();
}

// The attributes that name a buffer, and their docs: the same for all its ops.
#define BUFFER_ATTRS                    \
  Attr("container: string = ''")        \
      .Attr("shared_name: string = ''") \
      .Attr("shared_capacity: int >= 1 = 1")

std::string DocOf(const std::string& doc) {
  return doc + R"doc(
container: Container of the buffer in the device's resource manager; '' is the default one.
shared_name: Name of the buffer; required. Ops with the same name on a device share the buffer.
shared_capacity: Records the buffer holds at most; the same for all ops of a buffer.
)doc";
}

REGISTER_OP("TensorBufferPut")
    .Input("record: dtypes")
    .Input("place: num_places * int64")
    .Attr("dtypes: list(type) >= 1")
    .BUFFER_ATTRS.Attr("timeout_millis: int >= 0 = 0")
    .Attr("num_places: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(PutShape)
    .Doc(DocOf(R"doc(
Puts a record of tensors into a buffer, by reference; waits while the buffer is full.

Waiting holds no thread. Fails with the buffer's own error when it was cancelled, with Cancelled when
it was closed, with DeadlineExceeded after `timeout_millis`.

record: The tensors of one batch, of any shapes.
place: If none or -1, records leave in order of arrival. Otherwise the number of the step among those
  that fill the buffer: records leave in the order of places, so that a later one waits until every
  earlier place has a record, or a status from TensorBufferPutStatus.
timeout_millis: Longest wait in milliseconds; 0 for no limit.
num_places: 0 or 1.)doc"));

REGISTER_OP("TensorBufferPutStatus")
    .Input("place: int64")
    .Input("code: int32")
    .Input("message: string")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(AllInputsAreScalars)
    .Doc(DocOf(R"doc(
Puts an error in the place of a record: the take that gets it fails with it, once. Waits for room.

place: As in TensorBufferPut; -1 for order of arrival.
code: Scalar error code (tf.errors.*). 0, OK, leaves the place empty, and nothing waits for it.
message: Scalar message of the error.)doc"));

REGISTER_OP("TensorBufferTurn")
    .Input("place: int64")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(AllInputsAreScalars)
    .Doc(DocOf(R"doc(
Waits until the steps of all earlier places are done with the sources of the stage.

The sources wait for this op, and TensorBufferTurnEnd for the sources, so that steps draw from them one
at a time and in the order of places, while the rest of the steps runs in parallel.

place: Scalar number of the step among those that fill the buffer; -1 does not wait.)doc"));

REGISTER_OP("TensorBufferTurnEnd")
    .Input("place: int64")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(AllInputsAreScalars)
    .Doc(DocOf(R"doc(
Ends the turn that TensorBufferTurn waited for. Putting a record or a status at the place does so, too.

place: Scalar number of the step; -1 has no turn.)doc"));

REGISTER_OP("TensorBufferTurnBegun")
    .Input("place: int64")
    .Output("begun: bool")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return AllInputsAreScalars(c);
    })
    .Doc(DocOf(R"doc(
Whether a TensorBufferTurn at this place has been let in.

place: Scalar number of the step.
begun: Scalar.)doc"));

REGISTER_OP("TensorBufferTake")
    .Output("record: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .BUFFER_ATTRS.Attr("timeout_millis: int >= 0 = 0")
    .Attr("runner_grace_millis: int >= 0 = 5000")
    .SetIsStateful()
    .SetShapeFn(TakeShape)
    .Doc(DocOf(R"doc(
Takes the next record of tensors out of a buffer, by reference; waits while there is none.

Waiting holds no thread. Fails with an error that was put in place of a record, with the buffer's own
error if it was cancelled, with OutOfRange if it is closed and empty, with DeadlineExceeded after
`timeout_millis`, and with FailedPrecondition if nothing has ever fed the buffer.

record: The tensors as they were put.
shapes: Static shapes of the record, one for each dtype, or none: unknown. A record that does not fit
  is an InvalidArgument error.
timeout_millis: Longest wait in milliseconds; 0 for no limit.
runner_grace_millis: Longest wait, in milliseconds, for a buffer that nothing was ever put into and
  that no runner has resumed, since the hook was forgotten. 0 for no limit.)doc"));

REGISTER_OP("TensorBufferPeek")
    .Output("record: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .BUFFER_ATTRS.Attr("timeout_millis: int >= 0 = 0")
    .Attr("runner_grace_millis: int >= 0 = 5000")
    .SetIsStateful()
    .SetShapeFn(TakeShape)
    .Doc(DocOf(R"doc(
Returns what the next TensorBufferTake gets, and leaves it in the buffer; waits and fails like that.

record: The tensors as they were put.
shapes: As of TensorBufferTake.
timeout_millis: Longest wait in milliseconds; 0 for no limit.
runner_grace_millis: As of TensorBufferTake.)doc"));

REGISTER_OP("TensorBufferCancel")
    .Input("code: num_status * int32")
    .Input("message: num_status * string")
    .Input("first_place: num_places * int64")
    .BUFFER_ATTRS.Attr("is_cancelled: bool = true")
    .Attr("num_status: int >= 0 = 0")
    .Attr("num_places: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(AllInputsAreScalars)
    .Doc(DocOf(R"doc(
Fails waiting and later puts and takes of a buffer, or reopens it.

With `is_cancelled`, the records are dropped and all calls fail with the given error until the buffer
is resumed; of several errors, the first one counts. Without it, the buffer is resumed: records, error,
close and places are cleared, it gets the capacity given here, and a runner counts as attached.

code: None, or the scalar error code (tf.errors.*), not OK; none means CANCELLED.
message: None, or the scalar message of the error.
first_place: None, or the scalar place from which a resumed buffer counts; 0 if none. Puts at earlier
  places, by steps that began before, fail.
is_cancelled: True cancels, False resumes.
num_status: 0 or 1.
num_places: 0 or 1.)doc"));

REGISTER_OP("TensorBufferClose")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(DocOf(R"doc(
Closes a buffer: later puts fail; takes get what is left, and then OutOfRange.

Puts that are waiting at this moment are still let in.)doc"));

REGISTER_OP("TensorBufferResize")
    .Input("capacity: int64")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(AllInputsAreScalars)
    .Doc(DocOf(R"doc(
Gives a buffer another capacity while it is in use, until it is resumed.

Records beyond a smaller capacity stay until they are taken. `shared_capacity` remains what it was, the
same for all ops of the buffer.

capacity: Scalar, at least 1.)doc"));

REGISTER_OP("TensorBufferSize")
    .Output("size: int32")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(DocOf(R"doc(
Number of records in a buffer.

size: Scalar.)doc"));

REGISTER_OP("TensorBufferMetrics")
    .Output("metrics: int64")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(VectorShape)
    .Doc(DocOf(R"doc(
What has happened in a buffer since it was created.

metrics: Vector; graph_opt.ops.tensor_buffer.METRIC_NAMES names its elements in order.)doc"));

#undef BUFFER_ATTRS

}  // namespace
}  // namespace graph_opt
