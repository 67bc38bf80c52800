#include <memory>
#include <string>
#include <vector>

#include "kernels/found_resource.h"
#include "kernels/kernel_names.h"
#include "kernels/served/served_tables.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
typedef tensorflow::core::RefCountPtr<ServedTables> TablesPointer;

Status ReadTables(OpKernelConstruction* ctx, std::vector<ServedTable>* tables) {
  std::vector<std::string> names;
  std::vector<DataType> dtypes;
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_names", &names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_dtypes", &dtypes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("table_shapes", &shapes));
  if (names.size() != dtypes.size() || names.size() != shapes.size()) {
    return errors::InvalidArgument("there are ", names.size(), " table_names, ", dtypes.size(),
                                   " table_dtypes and ", shapes.size(), " table_shapes");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    TensorShape shape;
    if (!shapes[i].AsTensorShape(&shape) || tensorflow::DataTypeSize(dtypes[i]) == 0) {
      return errors::InvalidArgument("table '", names[i], "' has shape ", shapes[i].DebugString(),
                                     " and type ", tensorflow::DataTypeString(dtypes[i]),
                                     "; need a known one, and numbers");
    }
    tables->push_back({names[i], dtypes[i], shape});
  }
  return Status();
}

Status ReadPath(OpKernelContext* ctx, std::string* path) {
  const Tensor& given = ctx->input(0);
  if (given.NumElements() != 1) {
    return errors::InvalidArgument("a path has shape ", given.shape().DebugString(), "; need one");
  }
  *path = std::string(given.flat<tensorflow::tstring>()(0));
  return Status();
}

// Mapping takes its time, and a session may have few threads: it has one of its own.
class OwnThreadKernel : public tensorflow::AsyncOpKernel {
 public:
  explicit OwnThreadKernel(OpKernelConstruction* ctx) : tensorflow::AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tables", &tables_));
    OP_REQUIRES_OK(ctx, StatusOfOp(name(), ReadTables(ctx, &expected_)));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    ctx->env()->SchedClosure([this, ctx, done] {
      TablesPointer tables;
      std::string path;
      Status status = FindOrMake(ctx, tables_, &tables);
      if (status.ok()) status = ReadPath(ctx, &path);
      if (status.ok()) status = Run(ctx, path, expected_, tables.get());
      ctx->SetStatus(StatusOfOp(name(), status));
      done();
    });
  }

 private:
  virtual Status Run(OpKernelContext* ctx, const std::string& path,
                     const std::vector<ServedTable>& expected, ServedTables* tables) const = 0;

  std::string tables_;
  std::vector<ServedTable> expected_;
};

class OpenServedTablesKernel : public OwnThreadKernel {
 public:
  using OwnThreadKernel::OwnThreadKernel;

 private:
  Status Run(OpKernelContext*, const std::string& path, const std::vector<ServedTable>& expected,
             ServedTables* tables) const override {
    return tables->Open(path, expected);
  }
};

class UpdateServedTablesKernel : public OwnThreadKernel {
 public:
  using OwnThreadKernel::OwnThreadKernel;

 private:
  Status Run(OpKernelContext* ctx, const std::string& path, const std::vector<ServedTable>&,
             ServedTables* tables) const override {
    int64_t number;
    TF_RETURN_IF_ERROR(tables->Update(path, &number));
    Tensor* version;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape(), &version));
    version->scalar<tensorflow::int64>()() = number;
    return Status();
  }
};

class ServedTablesKernel : public OpKernel {
 public:
  explicit ServedTablesKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("tables", &tables_));
  }

  void Compute(OpKernelContext* ctx) override {
    TablesPointer tables;
    OP_REQUIRES_OK(ctx, FindOrMake(ctx, tables_, &tables));
    const std::shared_ptr<const TablesVersion> version = tables->Current();
    OP_REQUIRES(ctx,
                version != nullptr && static_cast<int>(version->tables.size()) == num_outputs(),
                errors::FailedPrecondition(
                    name(),
                    ": the tables have not been opened: load the SavedModel by TensorFlow's "
                    "loader, which runs its init op"));
    for (int i = 0; i < num_outputs(); ++i) ctx->set_output(i, version->tables[i].tensor);
  }

 private:
  std::string tables_;
};

REGISTER_KERNEL_BUILDER(Name("OpenServedTables").Device(tensorflow::DEVICE_CPU),
                        OpenServedTablesKernel);
REGISTER_KERNEL_BUILDER(Name("ServedTables").Device(tensorflow::DEVICE_CPU), ServedTablesKernel);
REGISTER_KERNEL_BUILDER(Name("UpdateServedTables").Device(tensorflow::DEVICE_CPU),
                        UpdateServedTablesKernel);

}  // namespace
}  // namespace graph_opt
