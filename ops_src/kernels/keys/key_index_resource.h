#ifndef GRAPH_OPT_KERNELS_KEYS_KEY_INDEX_RESOURCE_H_
#define GRAPH_OPT_KERNELS_KEYS_KEY_INDEX_RESOURCE_H_

#include <cstdint>
#include <string>

#include "kernels/tensorflow_compat.h"
#include "keys/key_index.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace graph_opt {

inline const int64_t* NumbersOf(const tensorflow::Tensor& tensor) {
  return reinterpret_cast<const int64_t*>(tensor.flat<tensorflow::int64>().data());
}

inline int64_t* MutableNumbersOf(tensorflow::Tensor* tensor) {
  return reinterpret_cast<int64_t*>(tensor->flat<tensorflow::int64>().data());
}

// Which key has which row, as a variable of int64 says: the number of keys, then each row's key.
class KeyIndexResource : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override {
    const tensorflow::tf_shared_lock lock(mutex_);
    return "key index of " + std::to_string(index_.size()) + " rows";
  }

  tensorflow::mutex* mutex() const { return &mutex_; }

  // What the variable holds; made again if that was assigned since. Under the mutex.
  tensorflow::Status UpToDate(const tensorflow::Tensor& row_keys, KeyIndex** index) {
    const int64_t* const numbers = NumbersOf(row_keys);
    const int64_t count = numbers[0];
    const int64_t capacity = row_keys.NumElements() - 1;
    *index = &index_;
    if (row_keys.SharesBufferWith(made_from_) && index_.size() == count) {
      return tensorflow::Status();
    }
    if (count < 0 || count > capacity) {
      return tensorflow::errors::DataLoss("the table has ", count, " keys in ", capacity, " rows");
    }
    // Keeps the memory, so that no later value of the variable can have the same place.
    made_from_ = row_keys;
    return ToTensorFlow(index_.Assign(numbers + 1, count));
  }

  // The index that an input of an op has the handle of; made if there is none.
  static tensorflow::Status Open(tensorflow::OpKernelContext* ctx, int input,
                                 tensorflow::core::RefCountPtr<KeyIndexResource>* index) {
    return tensorflow::LookupOrCreateResource<KeyIndexResource>(
        ctx, tensorflow::HandleFromInput(ctx, input), index, [](KeyIndexResource** made) {
          *made = new KeyIndexResource();
          return tensorflow::Status();
        });
  }

 private:
  mutable tensorflow::mutex mutex_;
  KeyIndex index_;
  tensorflow::Tensor made_from_;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_KEYS_KEY_INDEX_RESOURCE_H_
