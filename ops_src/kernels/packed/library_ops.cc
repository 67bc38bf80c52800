#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

// What a session asks servers before it gives them other ops of ours.

namespace graph_opt {
namespace {

Status LibraryShape(InferenceContext* c) {
  c->set_output(0, c->Scalar());
  c->set_output(1, c->Scalar());
  return Status();
}

// Both are stateful, so that they run where they are placed and not where a graph is optimized.
REGISTER_OP("GraphOptLoaded")
    .Output("loaded: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Always true; a process that has not loaded these ops does not find this one.

loaded: A scalar.)doc");

// `message_format` is to be counted up by changes of what processes send each other that change no
// op's definition.
REGISTER_OP("GraphOptLibrary")
    .Output("release: string")
    .Output("definitions: string")
    .Attr("message_format: int = 1")
    .SetIsStateful()
    .SetShapeFn(LibraryShape)
    .Doc(R"doc(
Which library of these ops a process has loaded.

release: A scalar, such as 0.1.0.
definitions: A scalar, a hash of how all ops are defined: processes that have the same one
  understand each other's nodes.
message_format: Read by nobody; its default is part of the definitions.)doc");

}  // namespace
}  // namespace graph_opt
