#ifndef GRAPH_OPT_KERNELS_DYNAMIC_BUNDLE_FILE_H_
#define GRAPH_OPT_KERNELS_DYNAMIC_BUNDLE_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace graph_opt {

// Writes a checkpoint piece by piece: TensorFlow's writer takes whole tensors, for which there may
// be no memory.
class BundleFile {
 public:
  // `prefix` as for SaveV2; the folder is made.
  BundleFile(tensorflow::Env* env, const std::string& prefix);
  ~BundleFile();  // removes what is not finished

  tensorflow::Status Open();
  // The bytes that are appended next are those of this tensor.
  void Begin(const std::string& name, tensorflow::DataType dtype,
             const tensorflow::TensorShape& shape);
  tensorflow::Status Append(const void* bytes, int64_t size);
  // Fails if a tensor has not got all its bytes.
  tensorflow::Status Finish();

 private:
  tensorflow::Status WriteIndex();

  tensorflow::Env* const env_;
  const std::string prefix_;
  std::unique_ptr<tensorflow::WritableFile> file_;
  int64_t written_ = 0;
  uint32_t crc32c_ = 0;
  tensorflow::BundleEntryProto* current_ = nullptr;
  std::map<std::string, tensorflow::BundleEntryProto> entries_;
  bool finished_ = false;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_DYNAMIC_BUNDLE_FILE_H_
