#ifndef GRAPH_OPT_OPS_SRC_KERNELS_KERNEL_NAMES_H_
#define GRAPH_OPT_OPS_SRC_KERNELS_KERNEL_NAMES_H_

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/status.h"

namespace graph_opt {

// TensorFlow's names that kernels are full of. Only sources include this: headers name namespaces.
using tensorflow::DataType;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

}  // namespace graph_opt

#endif  // GRAPH_OPT_OPS_SRC_KERNELS_KERNEL_NAMES_H_
