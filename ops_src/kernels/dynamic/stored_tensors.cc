#include "kernels/dynamic/stored_tensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"
#include "tensorflow/core/util/tensor_bundle/naming.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::Status;

constexpr int64_t kVerifiedBytes = 1 << 22;

}  // namespace

int64_t StoredTensors::Tensor::row_bytes() const {
  int64_t elements = 1;
  for (int d = 1; d < shape.dims(); ++d) elements *= shape.dim_size(d);
  return elements * tensorflow::DataTypeSize(dtype);
}

StoredTensors::StoredTensors(tensorflow::Env* env, const std::string& prefix)
    : env_(env), prefix_(prefix), reader_(env, prefix), status_(reader_.status()) {
  if (!status_.ok()) return;
  reader_.Seek(tensorflow::kHeaderEntryKey);
  tensorflow::BundleHeaderProto header;
  if (!reader_.Valid() || !reader_.key().empty() ||
      !header.ParseFromArray(reader_.value().data(), reader_.value().size())) {
    status_ = errors::DataLoss("checkpoint '", prefix, "' has no header");
  } else if (header.endianness() != tensorflow::BundleHeaderProto::LITTLE) {
    status_ = errors::Unimplemented("checkpoint '", prefix, "' has numbers in big-endian order");
  }
  num_files_ = header.num_shards();
}

Status StoredTensors::status() const { return status_; }

bool StoredTensors::Has(const std::string& name) { return reader_.Contains(name); }

Status StoredTensors::Find(const std::string& name, tensorflow::DataType dtype, Tensor* tensor) {
  tensorflow::BundleEntryProto entry;
  reader_.Seek(name);
  if (!reader_.Valid() || reader_.key() != name) {
    return errors::NotFound("Key ", name, " not found in checkpoint '", prefix_, "'");
  }
  if (!entry.ParseFromArray(reader_.value().data(), reader_.value().size()) ||
      !tensorflow::TensorShape::IsValid(entry.shape())) {
    return errors::DataLoss("the entry of '", name, "' in checkpoint '", prefix_, "' is damaged");
  }
  if (entry.dtype() != dtype) {
    return errors::InvalidArgument("'", name, "' of checkpoint '", prefix_, "' has dtype ",
                                   tensorflow::DataTypeString(entry.dtype()), ", not ",
                                   tensorflow::DataTypeString(dtype));
  }
  tensor->name = name;
  tensor->dtype = dtype;
  tensor->shape = tensorflow::TensorShape(entry.shape());
  if (entry.slices_size() > 0) {
    return errors::Unimplemented("'", name, "' of checkpoint '", prefix_,
                                 "' is in slices, as no table of keys is written");
  }
  tensor->file = tensorflow::DataFilename(prefix_, entry.shard_id(), num_files_);
  tensor->offset = entry.offset();
  tensor->crc32c = tensorflow::crc32c::Unmask(entry.crc32c());
  if (entry.size() != tensor->shape.num_elements() * tensorflow::DataTypeSize(dtype)) {
    return errors::DataLoss("the entry of '", name, "' in checkpoint '", prefix_, "' is damaged");
  }
  return Status();
}

Status StoredTensors::Verify(const Tensor& tensor) {
  const int64_t size = tensor.shape.num_elements() * tensorflow::DataTypeSize(tensor.dtype);
  std::vector<char> block(std::min(size, kVerifiedBytes));
  uint32_t crc32c = 0;
  for (int64_t first = 0; first < size; first += kVerifiedBytes) {
    const int64_t count = std::min(kVerifiedBytes, size - first);
    TF_RETURN_IF_ERROR(ReadBytes(tensor, first, count, block.data()));
    crc32c = tensorflow::crc32c::Extend(crc32c, block.data(), count);
  }
  if (crc32c == tensor.crc32c) return Status();
  return errors::DataLoss("'", tensor.name, "' in '", tensor.file,
                          "' is damaged: its checksum is not that of what was written");
}

Status StoredTensors::Read(const Tensor& tensor, int64_t first, int64_t count, void* rows) {
  const int64_t bytes = tensor.row_bytes();
  return ReadBytes(tensor, first * bytes, count * bytes, static_cast<char*>(rows));
}

Status StoredTensors::ReadBytes(const Tensor& tensor, int64_t first, int64_t size, char* bytes) {
  if (size == 0) return Status();
  auto& file = files_[tensor.file];
  if (file == nullptr) TF_RETURN_IF_ERROR(env_->NewRandomAccessFile(tensor.file, &file));
  tensorflow::StringPiece read;
  const Status status = file->Read(tensor.offset + first, size, &read, bytes);
  if (errors::IsOutOfRange(status)) {
    return errors::DataLoss("'", tensor.file, "' ends within '", tensor.name,
                            "': the checkpoint is not whole");
  }
  TF_RETURN_IF_ERROR(status);
  if (read.data() != bytes) std::memcpy(bytes, read.data(), size);
  return Status();
}

}  // namespace graph_opt
