#ifndef GRAPH_OPT_KERNELS_EXAMPLES_STOCK_PARSER_H_
#define GRAPH_OPT_KERNELS_EXAMPLES_STOCK_PARSER_H_

#include <memory>
#include <string>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

// TensorFlow's own parser of Examples, with the outputs and errors of ParseExampleV2.
class StockParser {
 public:
  StockParser();
  ~StockParser();

  void AddSparse(const std::string& name, tensorflow::DataType dtype);
  void AddDense(const std::string& name, tensorflow::DataType dtype,
                const tensorflow::PartialTensorShape& shape, const tensorflow::Tensor& by_default);

  // Sets the outputs: indices, values and shapes of sparse features, then dense features.
  tensorflow::Status Parse(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& serialized,
                           const tensorflow::Tensor& names) const;

 private:
  struct Config;
  std::unique_ptr<Config> config_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_EXAMPLES_STOCK_PARSER_H_
