// The library of another release, as far as sessions ask servers about it: ops of any definitions,
// without kernels but for those that answer.

#include "kernels/packed/library_kernels.cc"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace graph_opt {

extern "C" void RegisterOps(const char* definitions, int size) {
  tensorflow::OpList ops;
  ops.ParseFromArray(definitions, size);
  for (const tensorflow::OpDef& op : ops.op()) {
    tensorflow::OpRegistry::Global()->Register([op](tensorflow::OpRegistrationData* registered) {
      registered->op_def = op;
      registered->shape_inference_fn = tensorflow::shape_inference::UnknownShape;
      return Status();
    });
  }
}

}  // namespace graph_opt
