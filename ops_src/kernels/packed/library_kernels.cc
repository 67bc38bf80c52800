#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/kernel_names.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/op_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

using tensorflow::tstring;

// All ops of this library. CMakeLists.txt defines both names.
const char* const kOps[] = {GRAPH_OPT_OPS};

// FNV-1a, which is the same in every process.
void AddTo(uint64_t* hash, const std::string& bytes) {
  for (const char each : bytes) {
    *hash = (*hash ^ static_cast<unsigned char>(each)) * 1099511628211u;
  }
}

// A hash of the ops' definitions without their documentation.
Status HashDefinitions(std::string* text) {
  uint64_t hash = 14695981039346656037u;
  for (const char* const name : kOps) {
    const tensorflow::OpRegistrationData* registered = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::OpRegistry::Global()->LookUp(name, &registered));
    tensorflow::OpDef definition = registered->op_def;
    tensorflow::RemoveDescriptionsFromOpDef(&definition);
    AddTo(&hash, definition.SerializeAsString());
  }
  *text = absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
  return Status();
}

class LoadedKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    Tensor* loaded = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &loaded));
    loaded->scalar<bool>()() = true;
  }
};

class LibraryKernel : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::string hash;
    OP_REQUIRES_OK(ctx, HashDefinitions(&hash));
    Tensor* release = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &release));
    release->scalar<tstring>()() = GRAPH_OPT_RELEASE;
    Tensor* definitions = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({}), &definitions));
    definitions->scalar<tstring>()() = hash;
  }
};

#define CPU(op) Name(op).Device(tensorflow::DEVICE_CPU)
REGISTER_KERNEL_BUILDER(CPU("GraphOptLoaded"), LoadedKernel);
REGISTER_KERNEL_BUILDER(CPU("GraphOptLibrary"), LibraryKernel);
#undef CPU

}  // namespace
}  // namespace graph_opt
