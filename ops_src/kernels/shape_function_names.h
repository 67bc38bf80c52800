#ifndef GRAPH_OPT_OPS_SRC_KERNELS_SHAPE_FUNCTION_NAMES_H_
#define GRAPH_OPT_OPS_SRC_KERNELS_SHAPE_FUNCTION_NAMES_H_

#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/status.h"

namespace graph_opt {

// TensorFlow's names that shape functions are full of. Only sources include this: headers name
// namespaces.
using tensorflow::Status;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

}  // namespace graph_opt

#endif  // GRAPH_OPT_OPS_SRC_KERNELS_SHAPE_FUNCTION_NAMES_H_
