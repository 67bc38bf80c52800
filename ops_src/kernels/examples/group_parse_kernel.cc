#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "examples/feature_names.h"
#include "examples/located_features.h"
#include "kernels/examples/stock_parser.h"
#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::tstring;
typedef std::vector<Tensor> Tensors;

constexpr int64_t kReadMeanwhile = 16;  // bytes of rows, while one is parsed

ValueKind KindOf(DataType dtype) {
  if (dtype == tensorflow::DT_INT64) return ValueKind::kInt64;
  return dtype == tensorflow::DT_FLOAT ? ValueKind::kFloat : ValueKind::kBytes;
}

// Writes the values of a feature from element `at` on.
void ReadValues(const LocatedFeature& feature, int64_t at, Tensor* values) {
  switch (values->dtype()) {
    case tensorflow::DT_INT64:
      return ReadInt64s(feature,
                        reinterpret_cast<int64_t*>(values->flat<tensorflow::int64>().data()) + at);
    case tensorflow::DT_FLOAT:
      return ReadFloats(feature, values->flat<float>().data() + at);
    default: {
      tstring* const to = values->flat<tstring>().data() + at;
      return ReadBytes(feature, [&](uint32_t i, const char* data, uint64_t bytes) {
        to[i].assign(data, bytes);
      });
    }
  }
}

// Writes the default of a feature for one example.
void CopyDefault(const Tensor& value, int64_t at, Tensor* values) {
  const int64_t count = value.NumElements();
  switch (values->dtype()) {
    case tensorflow::DT_INT64:
      std::copy_n(value.flat<tensorflow::int64>().data(), count,
                  values->flat<tensorflow::int64>().data() + at);
      return;
    case tensorflow::DT_FLOAT:
      std::copy_n(value.flat<float>().data(), count, values->flat<float>().data() + at);
      return;
    default:
      std::copy_n(value.flat<tstring>().data(), count, values->flat<tstring>().data() + at);
  }
}

// Parses what it can, and leaves batches to TensorFlow in which anything is unusual or wrong.
class GroupParseKernel : public OpKernel {
 public:
  explicit GroupParseKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("sparse_types", &sparse_types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("Tdense", &dense_types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dense_shapes", &dense_shapes_));
    for (const DataType dtype : sparse_types_) kinds_.push_back(KindOf(dtype));
    for (const DataType dtype : dense_types_) kinds_.push_back(KindOf(dtype));
    for (const auto& shape : dense_shapes_) {
      OP_REQUIRES(ctx, shape.IsFullyDefined(),
                  errors::InvalidArgument(name(), ": dense_shapes has ", shape.DebugString(),
                                          "; need shapes that are fully known"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckInputs(ctx));
    const std::shared_ptr<const FeatureNames> names = NamesOf(ctx);
    const Tensor& serialized = ctx->input(0);
    LocatedFeatures located;
    const std::vector<SerializedExample> examples = ExamplesOf(serialized);
    int64_t bytes = 0;
    for (const SerializedExample& example : examples) bytes += example.bytes;
    DeviceThreads threads(ctx, kReadMeanwhile * bytes);
    const bool is_usual = serialized.dims() == 1 && names->are_distinct() &&
                          located.Locate(examples, *names, kinds_, &threads) &&
                          AreDenseWhole(ctx, located);
    if (is_usual) {
      OP_REQUIRES_OK(ctx, Write(ctx, located, &threads));
    } else {
      OP_REQUIRES_OK(ctx, ParseByTensorFlow(ctx, *names));
    }
  }

 private:
  enum Input { kSerialized, kNames, kSparseKeys, kDenseKeys, kDefaults };

  int num_sparse() const { return static_cast<int>(sparse_types_.size()); }
  int num_dense() const { return static_cast<int>(dense_types_.size()); }

  Status CheckInputs(OpKernelContext* ctx) const {
    TF_RETURN_IF_ERROR(CheckKeys(ctx, kSparseKeys, "sparse_keys", num_sparse()));
    return CheckKeys(ctx, kDenseKeys, "dense_keys", num_dense());
  }

  Status CheckKeys(OpKernelContext* ctx, int input, const char* what, int need) const {
    const Tensor& keys = ctx->input(input);
    if (keys.dims() == 1 && keys.NumElements() == need) return Status();
    return errors::InvalidArgument(name(), ": ", what, " has shape ", keys.shape().DebugString(),
                                   "; need a vector of ", need);
  }

  static std::vector<SerializedExample> ExamplesOf(const Tensor& serialized) {
    std::vector<SerializedExample> examples;
    const auto all = serialized.flat<tstring>();
    for (int64_t i = 0; i < all.size(); ++i) {
      examples.push_back({all(i).data(), static_cast<int64_t>(all(i).size())});
    }
    return examples;
  }

  // Sparse names, then dense ones. They are constants in all graphs but those made by hand.
  std::shared_ptr<const FeatureNames> NamesOf(OpKernelContext* ctx) {
    const auto sparse = ctx->input(kSparseKeys).flat<tstring>();
    const auto dense = ctx->input(kDenseKeys).flat<tstring>();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto is_same = [&](int place, const tstring& key) {
      return names_->Is(place, key.data(), static_cast<int64_t>(key.size()));
    };
    bool are_known = names_ != nullptr;
    for (int i = 0; are_known && i < num_sparse(); ++i) are_known = is_same(i, sparse(i));
    for (int i = 0; are_known && i < num_dense(); ++i) {
      are_known = is_same(num_sparse() + i, dense(i));
    }
    if (are_known) return names_;
    std::vector<std::string> names;
    for (int i = 0; i < num_sparse(); ++i) names.emplace_back(sparse(i).data(), sparse(i).size());
    for (int i = 0; i < num_dense(); ++i) names.emplace_back(dense(i).data(), dense(i).size());
    names_ = std::make_shared<const FeatureNames>(std::move(names));
    return names_;
  }

  // Whether each example has all values of its dense features, or there is a default.
  bool AreDenseWhole(OpKernelContext* ctx, const LocatedFeatures& located) const {
    for (int d = 0; d < num_dense(); ++d) {
      const int64_t need = dense_shapes_[d].num_elements();
      const Tensor& by_default = ctx->input(kDefaults + d);
      const bool has_default = by_default.NumElements() == need && need > 0;
      for (int64_t i = 0; i < located.num_examples(); ++i) {
        const LocatedFeature& feature = located.Of(i, num_sparse() + d);
        const bool is_whole = feature.data == nullptr ? has_default : feature.count == need;
        if (!is_whole) return false;
      }
    }
    return true;
  }

  Status Write(OpKernelContext* ctx, const LocatedFeatures& located, Parallel* parallel) const {
    Tensors indices, values, dense;
    TF_RETURN_IF_ERROR(AllocateSparse(ctx, located, &indices, &values));
    TF_RETURN_IF_ERROR(AllocateDense(ctx, located.num_examples(), &dense));
    const int64_t most = 4 * parallel->num_threads();
    const int64_t num_features = num_sparse() + num_dense();
    const int64_t tasks = parallel->num_threads() == 1 ? 1 : std::min(most, num_features);
    parallel->Run(tasks, [&](int64_t task) {
      const int64_t end = (task + 1) * num_features / tasks;
      for (int64_t f = task * num_features / tasks; f < end; ++f) {
        const int feature = static_cast<int>(f);
        if (feature < num_sparse()) {
          WriteSparse(located, feature, &indices[feature], &values[feature]);
        } else {
          const int d = feature - num_sparse();
          WriteDense(located, feature, ctx->input(kDefaults + d), &dense[d]);
        }
      }
    });
    return Status();
  }

  Status AllocateSparse(OpKernelContext* ctx, const LocatedFeatures& located, Tensors* indices,
                        Tensors* values) const {
    for (int f = 0; f < num_sparse(); ++f) {
      int64_t total = 0;
      int64_t most = 0;
      for (int64_t i = 0; i < located.num_examples(); ++i) {
        const int64_t count = located.Of(i, f).count;
        total += count;
        most = std::max(most, count);
      }
      Tensor* of_indices = nullptr;
      Tensor* of_values = nullptr;
      Tensor* shape = nullptr;
      TF_RETURN_IF_ERROR(ctx->allocate_output(f, TensorShape({total, 2}), &of_indices));
      TF_RETURN_IF_ERROR(ctx->allocate_output(num_sparse() + f, TensorShape({total}), &of_values));
      TF_RETURN_IF_ERROR(ctx->allocate_output(2 * num_sparse() + f, TensorShape({2}), &shape));
      shape->vec<tensorflow::int64>()(0) = located.num_examples();
      shape->vec<tensorflow::int64>()(1) = most;
      indices->push_back(*of_indices);
      values->push_back(*of_values);
    }
    return Status();
  }

  Status AllocateDense(OpKernelContext* ctx, int64_t num_examples, Tensors* dense) const {
    for (int d = 0; d < num_dense(); ++d) {
      TensorShape shape({num_examples});
      for (int axis = 0; axis < dense_shapes_[d].dims(); ++axis) {
        TF_RETURN_IF_ERROR(AppendDimension(dense_shapes_[d].dim_size(axis), &shape));
      }
      Tensor* values = nullptr;
      TF_RETURN_IF_ERROR(ctx->allocate_output(3 * num_sparse() + d, shape, &values));
      dense->push_back(*values);
    }
    return Status();
  }

  static void WriteSparse(const LocatedFeatures& located, int feature, Tensor* indices,
                          Tensor* values) {
    tensorflow::int64* place = indices->flat<tensorflow::int64>().data();
    int64_t at = 0;
    for (int64_t i = 0; i < located.num_examples(); ++i) {
      const LocatedFeature& from = located.Of(i, feature);
      if (from.count == 0) continue;
      ReadValues(from, at, values);
      for (uint32_t k = 0; k < from.count; ++k) {
        *place++ = i;
        *place++ = k;
      }
      at += from.count;
    }
  }

  static void WriteDense(const LocatedFeatures& located, int feature, const Tensor& by_default,
                         Tensor* values) {
    const int64_t num_examples = located.num_examples();
    const int64_t count = num_examples == 0 ? 0 : values->NumElements() / num_examples;
    for (int64_t i = 0; i < num_examples; ++i) {
      const LocatedFeature& from = located.Of(i, feature);
      if (from.data == nullptr) {
        CopyDefault(by_default, i * count, values);
      } else if (from.count > 0) {
        ReadValues(from, i * count, values);
      }
    }
  }

  Status ParseByTensorFlow(OpKernelContext* ctx, const FeatureNames& names) const {
    StockParser parser;
    for (int f = 0; f < num_sparse(); ++f) parser.AddSparse(names[f], sparse_types_[f]);
    for (int d = 0; d < num_dense(); ++d) {
      parser.AddDense(names[num_sparse() + d], dense_types_[d], dense_shapes_[d],
                      ctx->input(kDefaults + d));
    }
    return parser.Parse(ctx, ctx->input(kSerialized), ctx->input(kNames));
  }

  std::vector<DataType> sparse_types_;
  std::vector<DataType> dense_types_;
  std::vector<tensorflow::PartialTensorShape> dense_shapes_;
  std::vector<ValueKind> kinds_;
  std::mutex mutex_;
  std::shared_ptr<const FeatureNames> names_;
};

REGISTER_KERNEL_BUILDER(Name("GroupParseExample").Device(tensorflow::DEVICE_CPU), GroupParseKernel);

}  // namespace
}  // namespace graph_opt
