#include "kernels/lookup/pooled_rows.h"

#include <algorithm>
#include <string>

#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Lookups whose results are columns of one tensor have the same rows.
Status CheckRows(const std::string& op, const GroupAttrs& attrs, const GroupInputs& inputs) {
  if (!attrs.joined()) return Status();
  for (int i = 1; i < attrs.num_lookups(); ++i) {
    if (inputs.outer_shape(i) != inputs.outer_shape(0)) {
      return errors::InvalidArgument(op, ": lookup ", i, " in table '",
                                     attrs.table_names[attrs.lookup_tables[i]], "' has rows ",
                                     inputs.outer_shape(i).DebugString(), ", lookup 0 ",
                                     inputs.outer_shape(0).DebugString(),
                                     "; need the same, as their results are columns of one tensor");
    }
  }
  return Status();
}

Status CheckWidth(const std::string& op, const GroupAttrs& attrs, int lookup, int64_t dim) {
  if (!attrs.joined() || attrs.widths[lookup] == dim) return Status();
  const int64_t begin = attrs.columns[lookup];
  return errors::InvalidArgument(op, ": lookup ", lookup, " has the columns ", begin, " to ",
                                 begin + attrs.widths[lookup], ", and table '",
                                 attrs.table_names[attrs.lookup_tables[lookup]], "' is ", dim,
                                 " wide; columns must not overlap, nor be left out");
}

char* Data(const Tensor& tensor) { return const_cast<char*>(tensor.tensor_data().data()); }

// Allocates an output with the value of an input.
Status AllocateRead(OpKernelContext* ctx, int input, int output, const TensorShape& shape,
                    Tensor** pooled) {
  const Tensor& read = ctx->input(input);
  if (read.shape() != shape || read.dtype() != ctx->expected_output_dtype(output)) {
    return errors::InvalidArgument(ctx->op_kernel().name(), ": rows that were read have shape ",
                                   read.shape().DebugString(), "; need ", shape.DebugString());
  }
  const tensorflow::StringPiece bytes = read.tensor_data();
  TF_RETURN_IF_ERROR(ctx->forward_input_or_allocate_output({input}, output, shape, pooled));
  if (Data(**pooled) != bytes.data()) std::copy(bytes.begin(), bytes.end(), Data(**pooled));
  return Status();
}

}  // namespace

Status AllocatePooled(OpKernelContext* ctx, const GroupAttrs& attrs, const GroupInputs& inputs,
                      const std::vector<int64_t>& dims, const std::vector<DataType>& dtypes,
                      std::vector<Lookup>* lookups, int first_read) {
  const std::string& op = ctx->op_kernel().name();
  TF_RETURN_IF_ERROR(CheckRows(op, attrs, inputs));
  lookups->resize(attrs.num_lookups());
  Tensor* pooled = nullptr;
  for (int i = 0; i < attrs.num_lookups(); ++i) {
    Lookup& lookup = (*lookups)[i];
    lookup.bags = inputs.bags(i);
    lookup.bags.filled_id = -1;  // of gradients only
    lookup.table = attrs.lookup_tables[i];
    const DataType dtype = dtypes[lookup.table];
    const DataType wanted = ctx->expected_output_dtype(attrs.pooled_of(i));
    if (wanted != dtype && wanted != tensorflow::DT_FLOAT) {
      return errors::InvalidArgument(op, ": table '", attrs.table_names[lookup.table], "' is of ",
                                     tensorflow::DataTypeString(dtype), ", pooled_dtypes says ",
                                     tensorflow::DataTypeString(wanted),
                                     "; need the same, or float");
    }
    TF_RETURN_IF_ERROR(RowTypeOf(wanted, &lookup.pooled_type));
    TF_RETURN_IF_ERROR(CheckWidth(op, attrs, i, dims[lookup.table]));
    lookup.pooled_stride = attrs.joined() ? attrs.columns_width : dims[lookup.table];
    if (i == 0 || !attrs.joined()) {
      TensorShape shape = inputs.outer_shape(i);
      TF_RETURN_IF_ERROR(AppendDimension(lookup.pooled_stride, &shape));
      TF_RETURN_IF_ERROR(first_read < 0 ? ctx->allocate_output(i, shape, &pooled)
                                        : AllocateRead(ctx, first_read + i, i, shape, &pooled));
    }
    lookup.pooled = Data(*pooled);
    if (attrs.joined()) {
      lookup.pooled = Data(*pooled) + attrs.columns[i] * tensorflow::DataTypeSize(wanted);
    }
  }
  return Status();
}

Status ReadGradients(OpKernelContext* ctx, const GroupAttrs& attrs, const GroupInputs& inputs,
                     std::vector<PooledGradient>* lookups, std::vector<int64_t>* dims) {
  const std::string& op = ctx->op_kernel().name();
  OpInputList gradients;
  TF_RETURN_IF_ERROR(ctx->input_list("gradients", &gradients));
  const int wanted = attrs.joined() ? 1 : attrs.num_lookups();
  if (gradients.size() != wanted) {
    return errors::InvalidArgument(op, ": ", gradients.size(), " gradients; need ", wanted);
  }
  TF_RETURN_IF_ERROR(CheckRows(op, attrs, inputs));
  lookups->resize(attrs.num_lookups());
  dims->assign(attrs.num_tables(), -1);
  for (int i = 0; i < attrs.num_lookups(); ++i) {
    PooledGradient& lookup = (*lookups)[i];
    lookup.bags = inputs.bags(i);
    lookup.table = attrs.lookup_tables[i];
    const std::string& table = attrs.table_names[lookup.table];
    const Tensor& gradient = gradients[attrs.pooled_of(i)];
    const TensorShape& shape = gradient.shape();
    TensorShape outer = shape;
    if (shape.dims() > 0) outer.RemoveLastDims(1);
    if (shape.dims() == 0 || outer != inputs.outer_shape(i)) {
      return errors::InvalidArgument(op, ": the gradient of lookup ", i, " in table '", table,
                                     "' has shape ", shape.DebugString(), "; need ",
                                     inputs.outer_shape(i).DebugString(), " and the table's width");
    }
    lookup.gradients = gradient.tensor_data().data();
    lookup.stride = shape.dim_size(shape.dims() - 1);
    int64_t width = lookup.stride;
    if (attrs.joined()) {
      if (lookup.stride != attrs.columns_width) {
        return errors::InvalidArgument(op, ": the gradient has ", lookup.stride,
                                       " columns; need columns_width ", attrs.columns_width);
      }
      width = attrs.widths[i];
      lookup.gradients =
          Data(gradient) + attrs.columns[i] * tensorflow::DataTypeSize(gradient.dtype());
    }
    int64_t& dim = (*dims)[lookup.table];
    if (dim >= 0 && dim != width) {
      return errors::InvalidArgument(op, ": gradients of table '", table, "' have widths ", dim,
                                     " and ", width);
    }
    dim = width;
  }
  return Status();
}

}  // namespace graph_opt
