#include <string>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow_compat.h"

namespace graph_opt {
namespace {

using tensorflow::PartialTensorShape;
using tensorflow::Status;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

Status AllInputsAreScalars(InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) {
    ShapeHandle scalar;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
  }
  return Status();
}

Status PutShape(InferenceContext* c) {
  int num_tickets;
  TF_RETURN_IF_ERROR(c->GetAttr("num_tickets", &num_tickets));
  for (int i = c->num_inputs() - num_tickets; i < c->num_inputs(); ++i) {
    ShapeHandle scalar;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
  }
  return Status();
}

Status TakeShape(InferenceContext* c) {
  std::vector<PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
  const int num_tensors = c->num_outputs() - 1;
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
  c->set_output(num_tensors, c->Scalar());
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
    .Input("ticket: num_tickets * variant")
    .Attr("dtypes: list(type) >= 1")
    .BUFFER_ATTRS.Attr("timeout_millis: int >= 0 = 0")
    .Attr("unordered: bool = false")
    .Attr("num_tickets: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(PutShape)
    .Doc(DocOf(R"doc(
Puts a record of tensors into a buffer, by reference; waits while the buffer is full.

Waiting holds no thread. Fails with the buffer's own error when it was cancelled, with Cancelled when
it was closed, with DeadlineExceeded after `timeout_millis`.

record: The tensors of one batch, of any shapes.
ticket: None, or the ticket of the take that the batch came from: the record then leaves this buffer
  in the order of that take. Other records wait for it until it is put or its step has failed.
timeout_millis: Longest wait in milliseconds; 0 is no limit.
unordered: Ignore the ticket: records leave in the order of arrival.
num_tickets: 0 or 1.)doc"));

REGISTER_OP("TensorBufferTake")
    .Output("record: dtypes")
    .Output("ticket: variant")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .BUFFER_ATTRS.Attr("timeout_millis: int >= 0 = 0")
    .Attr("unordered: bool = false")
    .Attr("runner_grace_millis: int >= 0 = 5000")
    .SetIsStateful()
    .SetShapeFn(TakeShape)
    .Doc(DocOf(R"doc(
Takes the next record of tensors out of a buffer, by reference; waits while there is none.

Waiting holds no thread. Fails with the buffer's own error when it was cancelled, with OutOfRange when
it is closed and empty, with DeadlineExceeded after `timeout_millis`, and with FailedPrecondition when
nothing ever fed the buffer.

record: The tensors as they were put.
ticket: Scalar. The place of this record in the order of this buffer's takes: to be handed to the put
  of the buffer behind. Dropping it skips the record there.
shapes: Static shapes of the record, one for each dtype, or none: unknown. A record that does not fit
  is an InvalidArgument error.
timeout_millis: Longest wait in milliseconds; 0 is no limit.
unordered: Issue no ticket: `ticket` is empty and binds nobody.
runner_grace_millis: Longest wait, in milliseconds, for a buffer that nothing was ever put into and
  that no runner has resumed: the hook was forgotten. 0 is no limit.)doc"));

REGISTER_OP("TensorBufferCancel")
    .Input("code: num_status * int32")
    .Input("message: num_status * string")
    .BUFFER_ATTRS.Attr("is_cancelled: bool = true")
    .Attr("num_status: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(AllInputsAreScalars)
    .Doc(DocOf(R"doc(
Fails waiting and later puts and takes of a buffer, or opens it anew.

With `is_cancelled` the records are dropped and all calls fail with the given error, until the buffer
is resumed; of several errors the first one is kept. Without, the buffer is resumed: records, error,
close and tickets are forgotten, it has the capacity given here, and a runner counts as attached.

code: None, or the scalar error code (tf.errors.*), not OK; none means CANCELLED.
message: None, or the scalar message of the error.
is_cancelled: True cancels, False resumes.
num_status: 0 or 1.)doc"));

REGISTER_OP("TensorBufferClose")
    .BUFFER_ATTRS.SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(DocOf(R"doc(
Closes a buffer: later puts fail, takes get what is left and then OutOfRange.

Puts that wait at this moment are still let in.)doc"));

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
What a buffer has seen since it was created.

metrics: Vector; graph_opt.ops.tensor_buffer.METRIC_NAMES names its elements in order.)doc"));

#undef BUFFER_ATTRS

}  // namespace
}  // namespace graph_opt
