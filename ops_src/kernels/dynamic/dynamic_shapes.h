#ifndef GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_SHAPES_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_SHAPES_H_

#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {

// The width of the dynamic table, or slot, that an input is the handle of: [rows, width].
tensorflow::shape_inference::DimensionHandle WidthOfHandle(
    tensorflow::shape_inference::InferenceContext* c, int input);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_SHAPES_H_
