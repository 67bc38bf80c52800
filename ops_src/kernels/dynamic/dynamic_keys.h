#ifndef GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_KEYS_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_KEYS_H_

#include <cstdint>

#include "scratch/scratch_array.h"
#include "tensorflow/core/framework/tensor.h"

namespace graph_opt {

inline int64_t* Int64sOf(tensorflow::Tensor* tensor) {
  return reinterpret_cast<int64_t*>(tensor->flat<tensorflow::int64>().data());
}

inline const int64_t* Int64sOf(const tensorflow::Tensor& tensor) {
  return reinterpret_cast<const int64_t*>(tensor.flat<tensorflow::int64>().data());
}

// Keys of int32 or int64 as int64: not copied if they are that already.
class WideKeys {
 public:
  explicit WideKeys(const tensorflow::Tensor& keys) {
    if (keys.dtype() == tensorflow::DT_INT64) {
      keys_ = Int64sOf(keys);
      return;
    }
    const auto narrow = keys.flat<tensorflow::int32>();
    copied_.Reserve(narrow.size());
    for (int64_t i = 0; i < narrow.size(); ++i) copied_[i] = narrow(i);
    keys_ = copied_.data();
  }

  const int64_t* data() const { return keys_; }

 private:
  const int64_t* keys_;
  ScratchArray<int64_t> copied_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_DYNAMIC_KEYS_H_
