#include <cstdint>
#include <vector>

#include "kernels/kernel_names.h"
#include "kernels/lookup/device_threads.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"

namespace util {

// Farmhash's, as TensorFlow's library has it; its headers find no farmhash.h in some releases.
uint64_t Fingerprint64(const char* text, size_t length);

}  // namespace util

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

constexpr int64_t kBytesPerString = 64;  // a hash takes as long as to read so many

void Hash(const Tensor& values, uint64_t num_buckets, Tensor* buckets) {
  const auto from = values.flat<tensorflow::tstring>();
  auto to = buckets->flat<tensorflow::int64>();
  for (int64_t i = 0; i < from.size(); ++i) {
    const tensorflow::tstring& text = from(i);
    const uint64_t hash = util::Fingerprint64(text.data(), text.size());
    to(i) = text.empty() ? -1 : static_cast<int64_t>(hash % num_buckets);
  }
}

class GroupHashBucketsKernel : public OpKernel {
 public:
  explicit GroupHashBucketsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_buckets", &num_buckets_));
    OP_REQUIRES(ctx, static_cast<int>(num_buckets_.size()) == ctx->num_inputs(),
                errors::InvalidArgument("num_buckets has ", num_buckets_.size(),
                                        " entries, need one for each of the ", ctx->num_inputs(),
                                        " tensors"));
    for (const tensorflow::int64 count : num_buckets_) {
      OP_REQUIRES(ctx, count > 0, errors::InvalidArgument("num_buckets is ", count, "; need >= 1"));
    }
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

  Status Run(OpKernelContext* ctx) {
    std::vector<Tensor*> buckets(ctx->num_inputs());
    int64_t strings = 0;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      TensorShape shape = ctx->input(i).shape();
      if (shape.dims() == 1) shape.AddDim(1);
      TF_RETURN_IF_ERROR(ctx->allocate_output(i, shape, &buckets[i]));
      strings += shape.num_elements();
    }
    DeviceThreads(ctx, strings * kBytesPerString).Run(ctx->num_inputs(), [&](int64_t i) {
      Hash(ctx->input(i), num_buckets_[i], buckets[i]);
    });
    return Status();
  }

 private:
  std::vector<tensorflow::int64> num_buckets_;
};

REGISTER_KERNEL_BUILDER(Name("GroupHashBuckets").Device(tensorflow::DEVICE_CPU),
                        GroupHashBucketsKernel);

}  // namespace
}  // namespace graph_opt
