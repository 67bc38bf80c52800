#ifndef GRAPH_OPT_DYNAMIC_ROW_FILE_H_
#define GRAPH_OPT_DYNAMIC_ROW_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace graph_opt {

// A file for the rows of a table that do not fit into its memory budget. It has no name, so that
// nothing remains of it when the process ends, in whatever way. Offsets and sizes are in bytes, and
// multiples of the page size. Not thread-safe.
class RowFile {
 public:
  // Makes the folder, too. At most `most_bytes` are taken of the disk, 0 for as many as it has.
  static absl::Status Create(const std::string& folder, int64_t most_bytes,
                             std::unique_ptr<RowFile>* file);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  // Lets the memory at `address` be [begin, end) of the file. Only what TakeSpace was called for
  // may be touched.
  absl::Status Map(char* address, int64_t begin, int64_t end);

  // Takes the space of [begin, end), which is zeros at first, of the disk. So a full disk is an
  // error here rather than a signal at some later write.
  absl::Status TakeSpace(int64_t begin, int64_t end);

  // Gives the space of [begin, end) back, which was taken.
  void GiveBack(int64_t begin, int64_t end);

  // Of the disk.
  int64_t bytes() const { return bytes_; }

 private:
  RowFile(const std::string& folder, int64_t most_bytes, int descriptor)
      : folder_(folder), most_bytes_(most_bytes), descriptor_(descriptor) {}

  const std::string folder_;
  const int64_t most_bytes_;
  const int descriptor_;
  int64_t bytes_ = 0;
};

}  // namespace graph_opt

#endif  // GRAPH_OPT_DYNAMIC_ROW_FILE_H_
