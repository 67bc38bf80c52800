#include "kernels/dynamic/bundle_file.h"

#include "kernels/dynamic/bundle_index.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/lib/io/path.h"
#include "tensorflow/core/lib/io/table_builder.h"
#include "tensorflow/core/lib/io/table_options.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::Status;

}  // namespace

BundleFile::BundleFile(tensorflow::Env* env, const std::string& prefix)
    : env_(env), prefix_(prefix) {}

BundleFile::~BundleFile() {
  if (finished_ || file_ == nullptr) return;
  file_->Close().IgnoreError();
  env_->DeleteFile(DataFile(prefix_, 0, 1)).IgnoreError();
}

Status BundleFile::Open() {
  const std::string folder(tensorflow::io::Dirname(prefix_));
  if (!folder.empty()) TF_RETURN_IF_ERROR(env_->RecursivelyCreateDir(folder));
  return env_->NewWritableFile(DataFile(prefix_, 0, 1), &file_);
}

void BundleFile::Begin(const std::string& name, tensorflow::DataType dtype,
                       const tensorflow::TensorShape& shape) {
  current_ = &entries_[name];
  current_->set_dtype(dtype);
  shape.AsProto(current_->mutable_shape());
  current_->set_shard_id(0);
  current_->set_offset(written_);
  current_->set_size(0);
  crc32c_ = 0;
  current_->set_crc32c(tensorflow::crc32c::Mask(crc32c_));
}

Status BundleFile::Append(const void* bytes, int64_t size) {
  const char* const data = static_cast<const char*>(bytes);
  TF_RETURN_IF_ERROR(file_->Append(tensorflow::StringPiece(data, size)));
  written_ += size;
  crc32c_ = tensorflow::crc32c::Extend(crc32c_, data, size);
  current_->set_size(current_->size() + size);
  current_->set_crc32c(tensorflow::crc32c::Mask(crc32c_));
  return Status();
}

Status BundleFile::Finish() {
  for (const auto& named : entries_) {
    const tensorflow::BundleEntryProto& entry = named.second;
    const int64_t size = tensorflow::TensorShape(entry.shape()).num_elements() *
                         tensorflow::DataTypeSize(entry.dtype());
    if (entry.size() != size) {
      return errors::Internal("'", named.first, "' has ", entry.size(), " bytes, not ", size);
    }
  }
  TF_RETURN_IF_ERROR(file_->Close());
  TF_RETURN_IF_ERROR(WriteIndex());
  finished_ = true;
  return Status();
}

Status BundleFile::WriteIndex() {
  std::unique_ptr<tensorflow::WritableFile> file;
  TF_RETURN_IF_ERROR(env_->NewWritableFile(IndexFile(prefix_), &file));
  tensorflow::table::Options options;
  options.compression = tensorflow::table::kNoCompression;
  tensorflow::table::TableBuilder builder(options, file.get());
  tensorflow::BundleHeaderProto header;
  header.set_num_shards(1);
  header.set_endianness(tensorflow::BundleHeaderProto::LITTLE);
  header.mutable_version()->set_producer(1);
  builder.Add("", header.SerializeAsString());
  for (const auto& named : entries_) builder.Add(named.first, named.second.SerializeAsString());
  const Status status = builder.Finish();
  TF_RETURN_IF_ERROR(file->Close());
  return status;
}

}  // namespace graph_opt
