#ifndef GRAPH_OPT_KERNELS_SERVED_TABLE_FILE_H_
#define GRAPH_OPT_KERNELS_SERVED_TABLE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pages/mapped_file.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/status.h"

namespace graph_opt {

// A table that a served graph reads.
struct ServedTable {
  std::string name;
  tensorflow::DataType dtype;
  tensorflow::TensorShape shape;

  int64_t num_rows() const { return shape.dims() == 0 ? 1 : shape.dim_size(0); }
  int64_t bytes() const { return shape.num_elements() * tensorflow::DataTypeSize(dtype); }
};

// A file that graph_opt/table_files/mapped_files.py wrote, which describes it: a page about the
// table, and behind it the table, or some rows of it. Its first page has been checked.
struct TableFile {
  std::string path;
  std::string id;  // another one for other contents
  std::string name;
  bool has_all_rows;
  int64_t num_rows;   // that it has
  uint32_t checksum;  // CRC-32C of what follows the first page
  int64_t bytes;      // of that

  // Maps a file and reads its first page.
  static tensorflow::Status Open(const std::string& path, TableFile* file,
                                 std::shared_ptr<MappedFile>* mapped,
                                 MappedFile::Access access = MappedFile::kShared);
  // Whether it is of this table.
  tensorflow::Status Check(const MappedFile& mapped, const ServedTable& table) const;
};

// The table as a tensor in the memory of the file, which lives as long as that.
tensorflow::Tensor TensorOf(std::shared_ptr<const MappedFile> mapped, const ServedTable& table);

// Writes the rows of a file that has some into a table's writable mapping.
tensorflow::Status WriteRows(const TableFile& file, const MappedFile& mapped,
                             const ServedTable& table, MappedFile* written);

}  // namespace graph_opt

#endif  // GRAPH_OPT_KERNELS_SERVED_TABLE_FILE_H_
