#include "kernels/shape_function_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace graph_opt {
namespace {

Status LayersShapes(InferenceContext* c) {
  int places;
  int num_layers;
  TF_RETURN_IF_ERROR(c->GetAttr("places", &places));
  TF_RETURN_IF_ERROR(c->GetAttr("num_layers", &num_layers));
  ShapeHandle bases;
  ShapeHandle weights;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &bases));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2 + num_layers), 2, &weights));
  c->set_output(0, c->MakeShape({c->Dim(bases, 0), c->MakeDim(places), c->Dim(weights, 1)}));
  return Status();
}

REGISTER_OP("LayersAtPlaces")
    .Input("bases: T")
    .Input("matrix: T")
    .Input("added: T")
    .Input("weights: num_layers * T")
    .Input("biases: num_layers * T")
    .Output("results: T")
    .Attr("T: {float}")
    .Attr("num_layers: int >= 1")
    .Attr("places: int >= 1")
    .Attr("activations: list({'Identity', 'Relu', 'Sigmoid'}) >= 2")
    .SetShapeFn(LayersShapes)
    .Doc(R"doc(
Layers over each place of each row, such as the attention of items to the places of a history:

    activation(... activation(bases * matrix + added) * weights + biases ...)

The first layer has weights of its own for each place, as FirstRowLayer writes them, and the others
have the same in all places.

bases: [rows, width].
matrix: [width, places * columns].
added: [places * columns].
weights: [columns, columns of the next layer], for each layer but the first.
biases: [columns] of each layer but the first.
results: [rows, places, columns of the last layer].
activations: Of each layer, the first included.)doc");

}  // namespace
}  // namespace graph_opt
