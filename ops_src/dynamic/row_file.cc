#include "dynamic/row_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace graph_opt {
namespace {

absl::Status Failed(const std::string& what, const std::string& folder, int error) {
  const std::string message =
      absl::StrCat("row file of a dynamic table: ", what, " in ", folder, ": ", strerror(error));
  if (error == ENOSPC || error == EFBIG || error == ENOMEM) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::FailedPreconditionError(message);
}

absl::Status MakeFolder(const std::string& folder) {
  for (size_t end = 0; end != std::string::npos;) {
    end = folder.find('/', end + 1);
    const std::string part = folder.substr(0, end);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      return Failed("cannot make the folder", folder, errno);
    }
  }
  return absl::OkStatus();
}

// Not all file systems make files without a name (O_TMPFILE).
int OpenWithoutName(const std::string& folder) {
  const std::string pattern = absl::StrCat(folder, "/graph_opt_rows_XXXXXX");
  std::vector<char> path(pattern.begin(), pattern.end());
  path.push_back('\0');
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  if (descriptor >= 0) unlink(path.data());
  return descriptor;
}

}  // namespace

absl::Status RowFile::Create(const std::string& folder, int64_t most_bytes,
                             std::unique_ptr<RowFile>* file) {
  const absl::Status made = MakeFolder(folder);
  if (!made.ok()) return made;
  const int descriptor = OpenWithoutName(folder);
  if (descriptor < 0) return Failed("cannot make a file", folder, errno);
  file->reset(new RowFile(folder, most_bytes, descriptor));
  return absl::OkStatus();
}

RowFile::~RowFile() { close(descriptor_); }

absl::Status RowFile::Map(char* address, int64_t begin, int64_t end) {
  void* const mapped = mmap(address, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            descriptor_, begin);
  if (mapped == MAP_FAILED) return Failed("cannot map the file", folder_, errno);
  madvise(address, end - begin, MADV_RANDOM);  // neighbours of a row are seldom read with it
  return absl::OkStatus();
}

absl::Status RowFile::TakeSpace(int64_t begin, int64_t end) {
  const int64_t size = end - begin;
  if (most_bytes_ > 0 && bytes_ + size > most_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "row file of a dynamic table: ", bytes_ + size, " bytes are needed in ", folder_,
        ", and its budget is ", most_bytes_, "; raise it, or give the table a capacity"));
  }
  const int error = posix_fallocate(descriptor_, begin, size);
  if (error != 0) return Failed(absl::StrCat("no room for ", size, " more bytes"), folder_, error);
  bytes_ += size;
  return absl::OkStatus();
}

void RowFile::GiveBack(int64_t begin, int64_t end) {
  if (begin >= end) return;
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(descriptor_, mode, begin, end - begin) == 0) bytes_ -= end - begin;
}

}  // namespace graph_opt
