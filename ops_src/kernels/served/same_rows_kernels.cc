#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernel_names.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

// Whether each value is the one that stands so many before it, to the bit.
bool Repeats(const Tensor& tensor, int64_t period) {
  const int64_t count = tensor.NumElements() - period;
  if (count <= 0) return true;
  if (tensor.dtype() == tensorflow::DT_STRING) {
    const tensorflow::tstring* values = tensor.flat<tensorflow::tstring>().data();
    return std::equal(values, values + count, values + period);
  }
  const size_t bytes = tensorflow::DataTypeSize(tensor.dtype());
  const char* values = tensor.tensor_data().data();
  return std::memcmp(values, values + period * bytes, count * bytes) == 0;
}

// A feature of any number of values in each row.
class ValueList {
 public:
  ValueList(const Tensor& indices, const Tensor& values, const Tensor& shape)
      : indices_(indices), values_(values), shape_(shape) {}

  Status Read() {
    if (indices_.dims() != 2 || indices_.dim_size(1) != 2 || values_.dims() != 1 ||
        indices_.dim_size(0) != values_.dim_size(0) || shape_.NumElements() != 2) {
      return errors::InvalidArgument("a feature has indices ", indices_.shape().DebugString(),
                                     ", values ", values_.shape().DebugString(), " and shape ",
                                     shape_.shape().DebugString(),
                                     "; need [values, 2], [values] and [2]");
    }
    while (first_count_ < values_.NumElements() && RowOf(first_count_) == 0) ++first_count_;
    return Status();
  }

  int64_t num_rows() const { return shape_.flat<tensorflow::int64>()(0); }

  bool HasSameRows() const {
    if (first_count_ * num_rows() != values_.NumElements()) return false;
    for (int64_t row = 0, i = 0; row < num_rows(); ++row) {
      for (int64_t place = 0; place < first_count_; ++place, ++i) {
        if (RowOf(i) != row) return false;
      }
    }
    return Repeats(values_, first_count_);
  }

  Tensor first_indices() const { return indices_.Slice(0, first_count_); }
  Tensor first_values() const { return values_.Slice(0, first_count_); }
  int64_t places() const { return shape_.flat<tensorflow::int64>()(1); }

 private:
  int64_t RowOf(int64_t value) const { return indices_.matrix<tensorflow::int64>()(value, 0); }

  const Tensor indices_;
  const Tensor values_;
  const Tensor shape_;
  int64_t first_count_ = 0;
};

class FirstOfSameRowsKernel : public OpKernel {
 public:
  explicit FirstOfSameRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<DataType> rows;
    std::vector<DataType> lists;
    std::vector<DataType> others;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("names", &names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("other_names", &other_names_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("row_dtypes", &rows));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("list_dtypes", &lists));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("other_dtypes", &others));
    OP_REQUIRES(ctx, names_.size() == rows.size() + lists.size(),
                errors::InvalidArgument("there are ", names_.size(), " names of ",
                                        rows.size() + lists.size(), " features"));
    OP_REQUIRES(ctx, other_names_.size() == others.size(),
                errors::InvalidArgument("there are ", other_names_.size(), " other_names of ",
                                        others.size(), " others"));
    rows.insert(rows.end(), lists.begin(), lists.end());
    for (const DataType dtype : rows) {
      OP_REQUIRES(ctx, dtype == tensorflow::DT_STRING || tensorflow::DataTypeCanUseMemcpy(dtype),
                  errors::InvalidArgument("features of ", tensorflow::DataTypeString(dtype),
                                          " cannot be compared"));
    }
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

  Status Run(OpKernelContext* ctx) {
    OpInputList rows;
    OpInputList others;
    std::vector<ValueList> lists;
    TF_RETURN_IF_ERROR(ctx->input_list("rows", &rows));
    TF_RETURN_IF_ERROR(ctx->input_list("others", &others));
    TF_RETURN_IF_ERROR(ReadLists(ctx, &lists));
    int64_t num_rows = -1;
    for (int i = 0; i < rows.size(); ++i) {
      TF_RETURN_IF_ERROR(RequireAsMany(names_[i], rows[i], &num_rows));
    }
    for (int i = 0; i < others.size(); ++i) {
      TF_RETURN_IF_ERROR(RequireAsMany(other_names_[i], others[i], &num_rows));
    }
    TF_RETURN_IF_ERROR(RequireSame(rows, lists));
    for (int i = 0; i < rows.size(); ++i) {
      ctx->set_output(i, rows[i].Slice(0, std::min<int64_t>(num_rows, 1)));
    }
    return SetLists(ctx, rows.size(), lists);
  }

 private:
  static Status ReadLists(OpKernelContext* ctx, std::vector<ValueList>* lists) {
    OpInputList indices;
    OpInputList values;
    OpInputList shapes;
    TF_RETURN_IF_ERROR(ctx->input_list("indices", &indices));
    TF_RETURN_IF_ERROR(ctx->input_list("values", &values));
    TF_RETURN_IF_ERROR(ctx->input_list("shapes", &shapes));
    for (int i = 0; i < indices.size(); ++i) {
      lists->emplace_back(indices[i], values[i], shapes[i]);
      TF_RETURN_IF_ERROR(lists->back().Read());
    }
    return Status();
  }

  Status RequireAsMany(const std::string& name, const Tensor& tensor, int64_t* num_rows) const {
    if (tensor.dims() < 1) {
      return errors::InvalidArgument("the request has a single value of ", name, "; need rows");
    }
    if (*num_rows < 0) *num_rows = tensor.dim_size(0);
    if (tensor.dim_size(0) == *num_rows) return Status();
    return errors::InvalidArgument("the request has ", *num_rows, " rows of ", names_[0], " and ",
                                   tensor.dim_size(0), " of ", name);
  }

  Status RequireSame(const OpInputList& rows, const std::vector<ValueList>& lists) const {
    std::string different;
    for (size_t i = 0; i < names_.size(); ++i) {
      const size_t list = i - rows.size();
      const bool is_same =
          static_cast<int>(i) < rows.size()
              ? Repeats(rows[i], rows[i].NumElements() / std::max<int64_t>(rows[i].dim_size(0), 1))
              : lists[list].HasSameRows();
      if (!is_same) different += (different.empty() ? "" : ", ") + names_[i];
    }
    if (different.empty()) return Status();
    return errors::InvalidArgument(
        "the rows of the request differ in ", different,
        ", but this graph was exported for requests that repeat it in all rows (--repeated)");
  }

  static Status SetLists(OpKernelContext* ctx, int output, const std::vector<ValueList>& lists) {
    const int count = lists.size();
    for (int i = 0; i < count; ++i, ++output) {
      ctx->set_output(output, lists[i].first_indices());
      ctx->set_output(output + count, lists[i].first_values());
      Tensor* shape;
      TF_RETURN_IF_ERROR(ctx->allocate_output(output + 2 * count, TensorShape({2}), &shape));
      shape->flat<tensorflow::int64>()(0) = std::min<int64_t>(lists[i].num_rows(), 1);
      shape->flat<tensorflow::int64>()(1) = lists[i].places();
    }
    return Status();
  }

  std::vector<std::string> names_;
  std::vector<std::string> other_names_;
};

REGISTER_KERNEL_BUILDER(Name("FirstOfSameRows").Device(tensorflow::DEVICE_CPU),
                        FirstOfSameRowsKernel);

}  // namespace
}  // namespace graph_opt
