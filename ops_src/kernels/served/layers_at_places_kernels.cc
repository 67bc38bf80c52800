#include <string>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "layers/layers_at_places.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

Activation ActivationOf(const std::string& op) {
  if (op == "Relu") return Activation::kRelu;
  return op == "Sigmoid" ? Activation::kSigmoid : Activation::kNone;
}

class LayersAtPlacesKernel : public OpKernel {
 public:
  explicit LayersAtPlacesKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    int num_layers;
    std::vector<std::string> activations;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("places", &places_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_layers", &num_layers));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("activations", &activations));
    OP_REQUIRES(ctx, static_cast<int>(activations.size()) == num_layers + 1,
                errors::InvalidArgument("there are ", activations.size(), " activations of ",
                                        num_layers + 1, " layers"));
    for (const std::string& op : activations) activations_.push_back(ActivationOf(op));
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

  Status Run(OpKernelContext* ctx) {
    OpInputList weights;
    OpInputList biases;
    TF_RETURN_IF_ERROR(ctx->input_list("weights", &weights));
    TF_RETURN_IF_ERROR(ctx->input_list("biases", &biases));
    const Tensor& bases = ctx->input(0);
    const Tensor& matrix = ctx->input(1);
    const int64_t width = bases.dims() == 2 ? bases.dim_size(1) : -1;
    const int64_t all_places = ctx->input(2).NumElements();
    if (matrix.dims() != 2 || matrix.dim_size(0) != width || matrix.dim_size(1) != all_places ||
        all_places % places_ != 0) {
      return errors::InvalidArgument("bases have shape ", bases.shape().DebugString(),
                                     ", the matrix ", matrix.shape().DebugString(), ", with ",
                                     all_places,
                                     " numbers added; need [rows, width], "
                                     "[width, places * columns] and as many numbers, for ",
                                     places_, " places");
    }
    PlaceLayers layers;
    layers.bases = bases.flat<float>().data();
    layers.rows = bases.dim_size(0);
    layers.width = width;
    layers.places = places_;
    layers.first = {matrix.flat<float>().data(), ctx->input(2).flat<float>().data(),
                    all_places / places_, activations_[0]};
    std::vector<PlaceLayer> others;
    int64_t inputs = layers.first.columns;
    int64_t columns = inputs;
    for (int i = 0; i < weights.size(); ++i) {
      TF_RETURN_IF_ERROR(Add(weights[i], biases[i], activations_[i + 1], &inputs, &others));
      columns += inputs;
    }
    layers.others = others.data();
    layers.num_others = others.size();
    Tensor* results;
    TF_RETURN_IF_ERROR(
        ctx->allocate_output(0, TensorShape({layers.rows, places_, inputs}), &results));
    const int64_t numbers = layers.rows * places_ * columns;
    DeviceThreads threads(ctx, numbers * static_cast<int64_t>(sizeof(float)));
    ComputeLayers(layers, results->flat<float>().data(), &threads);
    return Status();
  }

 private:
  // Adds a layer over so many inputs, and tells how many the next one has.
  static Status Add(const Tensor& weights, const Tensor& bias, Activation activation,
                    int64_t* inputs, std::vector<PlaceLayer>* layers) {
    const int64_t columns = weights.dims() == 2 ? weights.dim_size(1) : -1;
    if (columns < 0 || weights.dim_size(0) != *inputs || bias.NumElements() != columns) {
      return errors::InvalidArgument("weights have shape ", weights.shape().DebugString(),
                                     ", with a bias of shape ", bias.shape().DebugString(),
                                     "; need ", *inputs, " rows, and a bias for each column");
    }
    layers->push_back(
        {weights.flat<float>().data(), bias.flat<float>().data(), columns, activation});
    *inputs = columns;
    return Status();
  }

  int places_;
  std::vector<Activation> activations_;
};

REGISTER_KERNEL_BUILDER(
    Name("LayersAtPlaces").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
    LayersAtPlacesKernel);

}  // namespace
}  // namespace graph_opt
