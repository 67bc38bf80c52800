#include "kernels/dynamic/dynamic_shapes.h"

#include "kernels/shape_function_names.h"

namespace graph_opt {

DimensionHandle WidthOfHandle(InferenceContext* c, int input) {
  const auto* handle = c->input_handle_shapes_and_types(input);
  if (handle == nullptr || handle->empty()) return c->UnknownDim();
  const ShapeHandle shape = (*handle)[0].shape;
  return c->RankKnown(shape) && c->Rank(shape) == 2 ? c->Dim(shape, 1) : c->UnknownDim();
}

}  // namespace graph_opt
