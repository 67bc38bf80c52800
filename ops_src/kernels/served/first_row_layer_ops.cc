#include <vector>

#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

Status LayerShapes(InferenceContext* c) {
  std::vector<int> widths;
  std::vector<int> bases;
  int places;
  TF_RETURN_IF_ERROR(c->GetAttr("widths", &widths));
  TF_RETURN_IF_ERROR(c->GetAttr("bases", &bases));
  TF_RETURN_IF_ERROR(c->GetAttr("places", &places));
  std::vector<int> of_bases;
  for (size_t i = 0; i < bases.size() && i < widths.size(); ++i) {
    if (bases[i] >= static_cast<int>(of_bases.size())) of_bases.resize(bases[i] + 1);
    if (bases[i] >= 0) of_bases[bases[i]] = widths[i];
  }
  int64_t rows = 0;
  for (const int width : of_bases) rows += width;
  ShapeHandle weights;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &weights));
  DimensionHandle columns;
  TF_RETURN_IF_ERROR(c->Multiply(c->Dim(weights, 1), places, &columns));
  c->set_output(0, c->Matrix(c->MakeDim(rows), columns));
  c->set_output(1, c->Vector(columns));
  return Status();
}

REGISTER_OP("FirstRowLayer")
    .Input("weights: T")
    .Input("bias: num_biases * T")
    .Input("repeated: num_repeated * T")
    .Output("matrix: T")
    .Output("added: T")
    .Attr("T: {float, double}")
    .Attr("num_biases: int >= 0")
    .Attr("num_repeated: int >= 0")
    .Attr("places: int >= 1")
    .Attr("widths: list(int) >= 1")
    .Attr("bases: list(int) >= 1")
    .Attr("signs: list(int) >= 1")
    .Attr("scales: list(int) >= 1")
    .Attr("offsets: list(int) >= 1")
    .Attr("offset_signs: list(int) >= 1")
    .SetShapeFn(LayerShapes)
    .Doc(R"doc(
A layer over columns of which some are the same in all rows of a request, for the others alone:

    joined columns * weights + bias  =  bases * matrix + added

The joined columns are P parts sign * scale * base + offset_sign * offset, in each of the places of a
row, where scales and offsets are the same in all rows, and bases in all places.

weights: [widths of all parts, columns].
bias: [columns], or none.
repeated: [rows, width], or [rows, places, width]: the scales and offsets, of which the first row is
  read, or zeros if there is none.
matrix: [widths of all bases, places * columns].
added: [places * columns].
widths: [P].
bases: [P]. Which of the tensors that vary a part has, -1: none.
signs: [P]. 1 or -1.
scales: [P]. Which of `repeated` a base is multiplied by, -1: none.
offsets: [P]. Which of `repeated` is added, -1: none.
offset_signs: [P]. 1 or -1.)doc");

}  // namespace
}  // namespace graph_opt
