#include "kernels/served/table_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/kernel_names.h"
#include "kernels/tensorflow_compat.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/hash/crc32c.h"

namespace graph_opt {
namespace {

namespace errors = tensorflow::errors;

constexpr char kMagic[] = "GOTABLE\n";
constexpr uint32_t kVersion = 1;
constexpr int64_t kDataOffset = 4096;
constexpr int64_t kAlignment = 64;
constexpr uint32_t kMostDimensions = 8;

// The first page, as it is in a file (mapped_files.py has the same); little endian.
struct Head {
  char magic[8];
  uint32_t version;
  uint32_t kind;  // 0: all rows; 1: some
  uint32_t dtype;
  uint32_t rank;
  int64_t dims[kMostDimensions];
  int64_t data_offset;
  int64_t data_bytes;
  int64_t num_rows;
  char id[16];
  uint32_t data_checksum;
  uint32_t name_bytes;
  char name[kDataOffset - 136 - 4];
  uint32_t checksum;  // of all before
};
static_assert(sizeof(Head) == kDataOffset, "fields have no gaps");

Status Damaged(const std::string& path, const std::string& how) {
  return errors::DataLoss(path, ": ", how,
                          "; copy the file again from where it was written, or export anew");
}

const Head& HeadOf(const MappedFile& mapped) {
  return *reinterpret_cast<const Head*>(mapped.data());
}

bool HasShape(const Head& head, const TensorShape& shape) {
  if (head.rank != static_cast<uint32_t>(shape.dims())) return false;
  for (int i = 0; i < shape.dims(); ++i) {
    if (head.dims[i] != shape.dim_size(i)) return false;
  }
  return true;
}

std::string ShapeText(const Head& head) {
  std::string text = "[";
  for (uint32_t i = 0; i < std::min(head.rank, kMostDimensions); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", head.dims[i]);
  }
  return text + "]";
}

int64_t NumberBytes(int64_t num_rows) {
  return (num_rows * int64_t{8} + kAlignment - 1) / kAlignment * kAlignment;
}

// Memory that belongs to a mapping: TensorFlow must not reuse it for results.
class MappedBuffer : public tensorflow::TensorBuffer {
 public:
  MappedBuffer(std::shared_ptr<const MappedFile> mapped, int64_t bytes)
      : tensorflow::TensorBuffer(const_cast<char*>(mapped->data()) + kDataOffset),
        mapped_(std::move(mapped)),
        bytes_(bytes) {}

  size_t size() const override { return bytes_; }
  tensorflow::TensorBuffer* root_buffer() override { return this; }
  bool OwnsMemory() const override { return false; }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(bytes_);
    description->set_allocator_name("mapped_table");
  }

 private:
  const std::shared_ptr<const MappedFile> mapped_;
  const int64_t bytes_;
};

}  // namespace

Status TableFile::Open(const std::string& path, TableFile* file,
                       std::shared_ptr<MappedFile>* mapped, MappedFile::Access access) {
  TF_RETURN_IF_ERROR(ToTensorFlow(MappedFile::Open(path, access, mapped)));
  const int64_t bytes = (*mapped)->bytes();
  if (bytes < kDataOffset) {
    return Damaged(path, absl::StrCat("has ", bytes, " bytes, and so no table"));
  }
  const Head& head = HeadOf(**mapped);
  if (std::memcmp(head.magic, kMagic, sizeof(head.magic)) != 0) {
    return Damaged(path, "is no table file");
  }
  if (tensorflow::crc32c::Value((*mapped)->data(), offsetof(Head, checksum)) != head.checksum) {
    return Damaged(path, "its first page is damaged");
  }
  if (head.version != kVersion) {
    return errors::InvalidArgument(path, ": has version ", head.version, " of the format; need ",
                                   kVersion, ": export with the release that serves");
  }
  file->path = path;
  file->id.assign(head.id, sizeof(head.id));
  file->name.assign(head.name, std::min<size_t>(head.name_bytes, sizeof(head.name)));
  file->has_all_rows = head.kind == 0;
  file->num_rows = head.num_rows;
  file->checksum = head.data_checksum;
  file->bytes = head.data_bytes;
  if (head.data_offset != kDataOffset || head.data_bytes != bytes - kDataOffset) {
    return Damaged(path, absl::StrCat("table '", file->name, "' needs ", head.data_bytes,
                                      " bytes, and the file has ", bytes - kDataOffset));
  }
  return Status();
}

Status TableFile::Check(const MappedFile& mapped, const ServedTable& table) const {
  const Head& head = HeadOf(mapped);
  if (head.dtype != static_cast<uint32_t>(table.dtype) || !HasShape(head, table.shape)) {
    return errors::InvalidArgument(
        path, ": table '", name, "' has shape ", ShapeText(head), " and type ",
        tensorflow::DataTypeString(static_cast<DataType>(head.dtype)), "; the graph needs ",
        table.shape.DebugString(), " and ", tensorflow::DataTypeString(table.dtype),
        ": give a file of the same export");
  }
  const int64_t row_bytes = table.num_rows() == 0 ? 0 : table.bytes() / table.num_rows();
  const bool is_possible =
      has_all_rows ? num_rows == table.num_rows() : num_rows >= 0 && num_rows <= table.num_rows();
  int64_t needed = table.bytes();
  if (!has_all_rows && is_possible) needed = NumberBytes(num_rows) + num_rows * row_bytes;
  if (is_possible && bytes == needed) return Status();
  return Damaged(path, absl::StrCat("table '", name, "' has ", bytes, " bytes for ", num_rows,
                                    " rows; need ", needed));
}

Tensor TensorOf(std::shared_ptr<const MappedFile> mapped, const ServedTable& table) {
  tensorflow::TensorBuffer* const buffer = new MappedBuffer(std::move(mapped), table.bytes());
  const Tensor tensor(table.dtype, table.shape, buffer);
  buffer->Unref();  // The tensor has a reference of its own.
  return tensor;
}

Status WriteRows(const TableFile& file, const MappedFile& mapped, const ServedTable& table,
                 MappedFile* written) {
  const char* const data = mapped.data() + kDataOffset;
  if (tensorflow::crc32c::Value(data, file.bytes) != file.checksum) {
    return Damaged(file.path,
                   absl::StrCat("rows of table '", file.name, "' are not those of its checksum"));
  }
  const int64_t* const numbers = reinterpret_cast<const int64_t*>(data);
  for (int64_t i = 0; i < file.num_rows; ++i) {
    if (numbers[i] < 0 || numbers[i] >= table.num_rows()) {
      return errors::InvalidArgument(file.path, ": table '", file.name, "' has ", table.num_rows(),
                                     " rows, and so no row ", numbers[i],
                                     ": write the update from a checkpoint of the same model");
    }
  }
  if (file.num_rows == 0) return Status();
  const int64_t row_bytes = table.bytes() / table.num_rows();
  const char* rows = data + NumberBytes(file.num_rows);
  char* const to = written->writable_data() + kDataOffset;
  for (int64_t i = 0; i < file.num_rows; ++i, rows += row_bytes) {
    std::memcpy(to + numbers[i] * row_bytes, rows, row_bytes);
  }
  return Status();
}

}  // namespace graph_opt
