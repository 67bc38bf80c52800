#include "kernels/examples/stock_parser.h"

#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace graph_opt {

namespace errors = tensorflow::errors;
using tensorflow::tstring;

struct StockParser::Config {
  tensorflow::example::FastParseExampleConfig all;
};

StockParser::StockParser() : config_(new Config) {}
StockParser::~StockParser() = default;

// Fields one by one: TensorFlow 1's structs have no constructor.
void StockParser::AddSparse(const std::string& name, DataType dtype) {
  config_->all.sparse.emplace_back();
  auto& feature = config_->all.sparse.back();
  feature.feature_name = name;
  feature.dtype = dtype;
}

void StockParser::AddDense(const std::string& name, DataType dtype,
                           const tensorflow::PartialTensorShape& shape, const Tensor& by_default) {
  config_->all.dense.emplace_back();
  auto& feature = config_->all.dense.back();
  feature.feature_name = name;
  feature.dtype = dtype;
  feature.shape = shape;
  feature.default_value = by_default;
  feature.variable_length = false;
  feature.elements_per_stride = static_cast<size_t>(shape.num_elements());
}

Status StockParser::Parse(OpKernelContext* ctx, const Tensor& serialized,
                          const Tensor& names) const {
  const std::string& op = ctx->op_kernel().name();
  if (serialized.dims() > 1) {
    return errors::InvalidArgument(op, ": serialized has shape ", serialized.shape().DebugString(),
                                   "; need a scalar or a vector");
  }
  if (names.NumElements() != 0 && names.shape() != serialized.shape()) {
    return errors::InvalidArgument(op, ": names has shape ", names.shape().DebugString(),
                                   "; need none or the shape of serialized, ",
                                   serialized.shape().DebugString());
  }
  tensorflow::example::Result result;
  if (serialized.dims() == 0) {
    const tstring& one = serialized.scalar<tstring>()();
    TF_RETURN_IF_ERROR(FastParseSingleExample(
        config_->all, tensorflow::StringPiece(one.data(), one.size()), &result));
  } else {
    const auto all = serialized.flat<tstring>();
    const auto of_names = names.flat<tstring>();
    TF_RETURN_IF_ERROR(FastParseExample(config_->all, {all.data(), static_cast<size_t>(all.size())},
                                        {of_names.data(), static_cast<size_t>(of_names.size())},
                                        ctx->device()->tensorflow_cpu_worker_threads()->workers,
                                        &result));
  }
  int output = 0;
  for (const auto* tensors : {&result.sparse_indices, &result.sparse_values, &result.sparse_shapes,
                              &result.dense_values}) {
    for (const Tensor& tensor : *tensors) ctx->set_output(output++, tensor);
  }
  return Status();
}

}  // namespace graph_opt
