#include <cstdint>
#include <string>

#include "kernels/kernel_names.h"
#include "kernels/keys/key_index_resource.h"
#include "kernels/lookup/variable_tables.h"
#include "kernels/tensorflow_compat.h"
#include "keys/key_index.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace graph_opt {
namespace {

// 1 + the row of each key of a vocabulary, which are given in the order in which keys come; 0 for
// keys without one.
class IntegerLookupKernel : public OpKernel {
 public:
  explicit IntegerLookupKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {}

  void Compute(OpKernelContext* ctx) override {
    const Tensor& keys = ctx->input(2);
    Tensor* ids = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, keys.shape(), &ids));
    VariableTables variables;
    OP_REQUIRES_OK(ctx, variables.Open(ctx, 0, 1, VariableTables::kUpdate));
    Tensor vocabulary = variables[0];
    const std::string& variable = tensorflow::HandleFromInput(ctx, 0).name();
    OP_REQUIRES(ctx, vocabulary.dtype() == tensorflow::DT_INT64 && vocabulary.NumElements() > 0,
                tensorflow::errors::InvalidArgument(name(), ": variable '", variable,
                                                    "' is no vocabulary: it has shape ",
                                                    vocabulary.shape().DebugString()));
    tensorflow::core::RefCountPtr<KeyIndexResource> resource;
    OP_REQUIRES_OK(ctx, KeyIndexResource::Open(ctx, 1, &resource));
    const tensorflow::mutex_lock lock(*resource->mutex());
    KeyIndex* index = nullptr;
    const Status current = resource->UpToDate(vocabulary, &index);
    OP_REQUIRES(
        ctx, current.ok(),
        Status(current.code(), name() + ": variable '" + variable + "': " + MessageOf(current)));
    Number(ctx->input(3).scalar<bool>()(), keys, index, &vocabulary, ids);
  }

 private:
  static void Number(bool add, const Tensor& keys, KeyIndex* index, Tensor* vocabulary,
                     Tensor* ids) {
    const int64_t count = keys.NumElements();
    int64_t* const found = MutableNumbersOf(ids);
    if (add) {
      int64_t* const numbers = MutableNumbersOf(vocabulary);
      const int64_t capacity = vocabulary->NumElements() - 1;
      index->FindOrAdd(NumbersOf(keys), count, capacity, found, numbers + 1);
      numbers[0] = index->size();
    } else {
      index->Find(NumbersOf(keys), count, found);
    }
    for (int64_t i = 0; i < count; ++i) ++found[i];
  }
};

REGISTER_KERNEL_BUILDER(Name("KeyIndexHandleOp").Device(tensorflow::DEVICE_CPU),
                        tensorflow::ResourceHandleOp<KeyIndexResource>);
REGISTER_KERNEL_BUILDER(Name("ResourceIntegerLookup").Device(tensorflow::DEVICE_CPU),
                        IntegerLookupKernel);

}  // namespace
}  // namespace graph_opt
