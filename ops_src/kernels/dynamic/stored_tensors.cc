#include "kernels/dynamic/stored_tensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensorflow/core/framework/tensor_slice.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/crc32c.h"
#include "tensorflow/core/util/saved_tensor_slice_util.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::Status;

constexpr int64_t kBlockBytes = 1 << 22;

}  // namespace

int64_t StoredTensors::Tensor::row_bytes() const {
  int64_t elements = 1;
  for (int d = 1; d < shape.dims(); ++d) elements *= shape.dim_size(d);
  return elements * tensorflow::DataTypeSize(dtype);
}

StoredTensors::StoredTensors(tensorflow::Env* env, const std::string& prefix)
    : env_(env), prefix_(prefix), index_(env, prefix) {}

Status StoredTensors::Find(const std::string& name, tensorflow::DataType dtype, Tensor* tensor) {
  tensorflow::BundleEntryProto entry;
  if (!Has(name)) {
    return errors::NotFound("Key ", name, " not found in checkpoint '", prefix_, "'");
  }
  if (!index_.Read(name, &entry) || !tensorflow::TensorShape::IsValid(entry.shape())) {
    return DamagedEntry(name);
  }
  if (entry.dtype() != dtype) {
    return errors::InvalidArgument("'", name, "' of checkpoint '", prefix_, "' has dtype ",
                                   tensorflow::DataTypeString(entry.dtype()), ", not ",
                                   tensorflow::DataTypeString(dtype));
  }
  tensor->name = name;
  tensor->dtype = dtype;
  tensor->shape = tensorflow::TensorShape(entry.shape());
  tensor->pieces.assign(std::max(1, entry.slices_size()), Piece());
  if (entry.slices_size() == 0) {
    Piece* const whole = &tensor->pieces[0];
    whole->num_rows = tensor->rows();
    whole->row_bytes = tensor->row_bytes();
    return FindPiece(entry, name, whole);
  }
  int64_t size = 0;
  for (int i = 0; i < entry.slices_size(); ++i) {
    TF_RETURN_IF_ERROR(FindSlice(entry.slices(i), *tensor, &tensor->pieces[i]));
    size += tensor->pieces[i].num_rows * tensor->pieces[i].row_bytes;
  }
  return size == tensor->rows() * tensor->row_bytes() ? Status() : DamagedEntry(name);
}

Status StoredTensors::FindSlice(const tensorflow::TensorSliceProto& proto, const Tensor& tensor,
                                Piece* piece) {
  const tensorflow::TensorSlice slice(proto);
  tensorflow::BundleEntryProto entry;
  const std::string key = tensorflow::checkpoint::EncodeTensorNameSlice(tensor.name, slice);
  tensorflow::TensorShape shape;
  if (!slice.SliceTensorShape(tensor.shape, &shape).ok() || shape.dims() == 0 ||
      !index_.Read(key, &entry)) {
    return DamagedEntry(tensor.name);
  }
  for (int d = 2; d < shape.dims(); ++d) {
    if (shape.dim_size(d) != tensor.shape.dim_size(d)) {
      return errors::Unimplemented("'", tensor.name, "' of checkpoint '", prefix_,
                                   "' is in slices of dimension ", d);
    }
  }
  piece->first_row = slice.IsFullAt(0) ? 0 : slice.start(0);
  piece->num_rows = shape.dim_size(0);
  piece->row_bytes = tensor.row_bytes();
  if (shape.dims() > 1 && !slice.IsFullAt(1)) {
    const int64_t column_bytes = tensor.row_bytes() / tensor.shape.dim_size(1);
    piece->first_byte = slice.start(1) * column_bytes;
    piece->row_bytes = shape.dim_size(1) * column_bytes;
  }
  return FindPiece(entry, tensor.name, piece);
}

Status StoredTensors::FindPiece(const tensorflow::BundleEntryProto& entry, const std::string& name,
                                Piece* piece) {
  if (entry.size() != piece->num_rows * piece->row_bytes) return DamagedEntry(name);
  piece->file = DataFile(prefix_, entry.shard_id(), index_.num_files());
  piece->offset = entry.offset();
  piece->crc32c = tensorflow::crc32c::Unmask(entry.crc32c());
  return Status();
}

Status StoredTensors::DamagedEntry(const std::string& name) const {
  return errors::DataLoss("the entry of '", name, "' in checkpoint '", prefix_, "' is damaged");
}

Status StoredTensors::Verify(const Tensor& tensor) {
  for (const Piece& piece : tensor.pieces) {
    TF_RETURN_IF_ERROR(VerifyPiece(tensor.name, piece));
  }
  return Status();
}

Status StoredTensors::VerifyPiece(const std::string& name, const Piece& piece) {
  const int64_t size = piece.num_rows * piece.row_bytes;
  std::vector<char> block(std::min(size, kBlockBytes));
  uint32_t crc32c = 0;
  for (int64_t first = 0; first < size; first += kBlockBytes) {
    const int64_t count = std::min(kBlockBytes, size - first);
    TF_RETURN_IF_ERROR(ReadBytes(name, piece, first, count, block.data()));
    crc32c = tensorflow::crc32c::Extend(crc32c, block.data(), count);
  }
  if (crc32c == piece.crc32c) return Status();
  return errors::DataLoss("'", name, "' in '", piece.file,
                          "' is damaged: its checksum is not that of what was written");
}

Status StoredTensors::Read(const Tensor& tensor, int64_t first, int64_t count, void* rows) {
  const int64_t row_bytes = tensor.row_bytes();
  for (const Piece& piece : tensor.pieces) {
    const int64_t begin = std::max(first, piece.first_row);
    const int64_t end = std::min(first + count, piece.first_row + piece.num_rows);
    if (begin >= end) continue;
    char* const to = static_cast<char*>(rows) + (begin - first) * row_bytes + piece.first_byte;
    TF_RETURN_IF_ERROR(ReadPiece(tensor, piece, begin - piece.first_row, end - begin, to));
  }
  return Status();
}

Status StoredTensors::ReadPiece(const Tensor& tensor, const Piece& piece, int64_t first,
                                int64_t count, char* rows) {
  const int64_t bytes = piece.row_bytes;
  if (bytes == tensor.row_bytes()) {
    return ReadBytes(tensor.name, piece, first * bytes, count * bytes, rows);
  }
  std::vector<char> columns(count * bytes);
  TF_RETURN_IF_ERROR(ReadBytes(tensor.name, piece, first * bytes, count * bytes, columns.data()));
  for (int64_t r = 0; r < count; ++r) {
    std::copy_n(columns.data() + r * bytes, bytes, rows + r * tensor.row_bytes());
  }
  return Status();
}

Status StoredTensors::ReadBytes(const std::string& name, const Piece& piece, int64_t first,
                                int64_t size, char* bytes) {
  if (size == 0) return Status();
  auto& file = files_[piece.file];
  if (file == nullptr) TF_RETURN_IF_ERROR(env_->NewRandomAccessFile(piece.file, &file));
  tensorflow::StringPiece read;
  const Status status = file->Read(piece.offset + first, size, &read, bytes);
  if (errors::IsOutOfRange(status)) {
    return errors::DataLoss("'", piece.file, "' ends within '", name,
                            "': the checkpoint is not whole");
  }
  TF_RETURN_IF_ERROR(status);
  if (read.data() != bytes) std::memcpy(bytes, read.data(), size);
  return Status();
}

}  // namespace graph_opt
