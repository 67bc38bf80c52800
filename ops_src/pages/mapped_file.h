// Files in memory: all processes that map one share its pages.
#ifndef GRAPH_OPT_PAGES_MAPPED_FILE_H_
#define GRAPH_OPT_PAGES_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace graph_opt {

// A whole file, to be read until this is destroyed. Who makes the file shorter meanwhile ends the
// process: files that are mapped are replaced, not written.
class MappedFile {
 public:
  enum Access {
    kShared,    // pages are those of the file
    kWritable,  // pages are those of the file until they are written: then they are this mapping's
  };

  // Errors name the file.
  static absl::Status Open(const std::string& path, Access access,
                           std::shared_ptr<MappedFile>* file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  char* writable_data() { return data_; }  // of kWritable

  // From then on it is only read.
  void EndWriting();

 private:
  MappedFile(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  char* const data_;
  const int64_t bytes_;
};

// Reads files into memory, so that the first lookups need not wait for the disk. Does not keep
// mappings that others have given up.
void Warm(const std::vector<std::weak_ptr<const MappedFile>>& files);
// The same, by a thread of low priority.
void WarmAside(std::vector<std::weak_ptr<const MappedFile>> files);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PAGES_MAPPED_FILE_H_
