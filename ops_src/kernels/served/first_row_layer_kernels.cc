#include <algorithm>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "layers/first_row_layer.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

template <typename T>
class FirstRowLayerKernel : public OpKernel {
 public:
  explicit FirstRowLayerKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("places", &places_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("widths", &widths_));
    int num_repeated;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_repeated", &num_repeated));
    OP_REQUIRES_OK(ctx, Read(ctx, "bases", static_cast<int>(widths_.size()), &bases_));
    OP_REQUIRES_OK(ctx, Read(ctx, "scales", num_repeated, &scales_));
    OP_REQUIRES_OK(ctx, Read(ctx, "offsets", num_repeated, &offsets_));
    OP_REQUIRES_OK(ctx, Read(ctx, "signs", 2, &signs_));
    OP_REQUIRES_OK(ctx, Read(ctx, "offset_signs", 2, &offset_signs_));
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

  Status Run(OpKernelContext* ctx) {
    OpInputList biases;
    OpInputList repeated;
    const Tensor& weights = ctx->input(0);
    TF_RETURN_IF_ERROR(ctx->input_list("bias", &biases));
    TF_RETURN_IF_ERROR(ctx->input_list("repeated", &repeated));
    int64_t rows = 0;
    for (const int width : widths_) rows += width;
    const int64_t columns = weights.dims() == 2 ? weights.dim_size(1) : 0;
    if (weights.dims() != 2 || weights.dim_size(0) != rows || biases.size() > 1 ||
        (biases.size() == 1 && biases[0].NumElements() != columns)) {
      return errors::InvalidArgument("weights have shape ", weights.shape().DebugString(),
                                     ", with ", biases.size(), " biases; need ", rows,
                                     " rows, and a bias for each column or none");
    }
    std::vector<LayerPart<T>> parts(widths_.size());
    std::vector<Tensor> zeros;  // in place of the first row of a request that has none
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].width = widths_[i];
      parts[i].base = bases_[i];
      parts[i].sign = signs_[i];
      parts[i].offset_sign = offset_signs_[i];
      TF_RETURN_IF_ERROR(FirstRow(ctx, repeated, scales_[i], widths_[i], &zeros, &parts[i].scale));
      TF_RETURN_IF_ERROR(
          FirstRow(ctx, repeated, offsets_[i], widths_[i], &zeros, &parts[i].offset));
    }
    const T* bias = biases.size() == 0 ? nullptr : biases[0].flat<T>().data();
    const FirstRowLayer<T> layer(parts, places_, columns, weights.flat<T>().data(), bias);
    Tensor* matrix;
    Tensor* added;
    const int64_t width = places_ * columns;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({layer.matrix_rows(), width}), &matrix));
    TF_RETURN_IF_ERROR(ctx->allocate_output(1, TensorShape({width}), &added));
    DeviceThreads threads(ctx, rows * width * static_cast<int64_t>(sizeof(T)));
    layer.Write(matrix->flat<T>().data(), added->flat<T>().data(), &threads);
    return Status();
  }

 private:
  // Reads an attribute with a number below `end` for each part.
  Status Read(OpKernelConstruction* ctx, const char* name, int end,
              std::vector<int>* numbers) const {
    TF_RETURN_IF_ERROR(ctx->GetAttr(name, numbers));
    const bool fits = numbers->size() == widths_.size() &&
                      std::all_of(numbers->begin(), numbers->end(),
                                  [end](int number) { return number >= -1 && number < end; });
    if (fits) return Status();
    return errors::InvalidArgument(name, " has ", numbers->size(), " numbers for ", widths_.size(),
                                   " parts, or one that is not from -1 to ", end - 1);
  }

  Status FirstRow(OpKernelContext* ctx, const OpInputList& repeated, int number, int width,
                  std::vector<Tensor>* zeros, const T** row) const {
    if (number < 0) return Status();
    const Tensor& tensor = repeated[number];
    const int64_t size = places_ * width;
    const bool is_empty = tensor.dims() > 0 && tensor.dim_size(0) == 0;
    if (is_empty) {
      Tensor zero;
      TF_RETURN_IF_ERROR(
          ctx->allocate_temp(tensorflow::DataTypeToEnum<T>::value, TensorShape({size}), &zero));
      zero.flat<T>().setZero();
      zeros->push_back(zero);
      *row = zeros->back().flat<T>().data();
      return Status();
    }
    if (tensor.dims() == 0 || tensor.NumElements() != tensor.dim_size(0) * size) {
      return errors::InvalidArgument("a repeated tensor has shape ", tensor.shape().DebugString(),
                                     "; need rows of ", size, " numbers");
    }
    *row = tensor.flat<T>().data();
    return Status();
  }

  int places_;
  std::vector<int> widths_;
  std::vector<int> bases_;
  std::vector<int> scales_;
  std::vector<int> offsets_;
  std::vector<int> signs_;
  std::vector<int> offset_signs_;
};

#define GRAPH_OPT_REGISTER_LAYER(type)                                                \
  REGISTER_KERNEL_BUILDER(                                                            \
      Name("FirstRowLayer").Device(tensorflow::DEVICE_CPU).TypeConstraint<type>("T"), \
      FirstRowLayerKernel<type>)

GRAPH_OPT_REGISTER_LAYER(float);
GRAPH_OPT_REGISTER_LAYER(double);

}  // namespace
}  // namespace graph_opt
