#ifndef GRAPH_OPT_KERNELS_LOOKUP_GROUP_SHAPES_H_
#define GRAPH_OPT_KERNELS_LOOKUP_GROUP_SHAPES_H_

#include <vector>

#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {

// The columns of the lookups; empty where each lookup has its own tensor.
tensorflow::Status ReadColumns(tensorflow::shape_inference::InferenceContext* c,
                               std::vector<int64_t>* widths, tensorflow::int64* columns_width);

// Sets the outputs `pooled`, the only ones of the op. `dims` are the widths of the tables, and
// `first_ids` the number of the first of the group inputs.
tensorflow::Status SetPooledShapes(
    tensorflow::shape_inference::InferenceContext* c, int first_ids,
    const std::vector<tensorflow::shape_inference::DimensionHandle>& dims);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_LOOKUP_GROUP_SHAPES_H_
