#include "pages/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "threads/thread_priority.h"

namespace graph_opt {
namespace {

constexpr int kNiceness = 10;
constexpr int64_t kWarmedBytes = int64_t{16} << 20;  // a mapping that is given up waits for no more
constexpr int64_t kPageBytes = 4096;                 // or a multiple of it
constexpr int kPopulate = 22;  // MADV_POPULATE_READ, since Linux 5.14; older headers lack it

absl::StatusCode CodeOf(int error) {
  if (error == ENOENT || error == ENOTDIR) return absl::StatusCode::kNotFound;
  if (error == EACCES || error == EPERM) return absl::StatusCode::kPermissionDenied;
  if (error == ENOMEM) return absl::StatusCode::kResourceExhausted;
  return absl::StatusCode::kUnavailable;
}

absl::Status Error(const std::string& path, const char* doing, int error) {
  return absl::Status(CodeOf(error), absl::StrCat(path, ": ", doing, ": ", std::strerror(error)));
}

void Touch(const char* data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kPageBytes) {
    static_cast<void>(*static_cast<const volatile char*>(data + i));
  }
}

void WarmOne(const std::weak_ptr<const MappedFile>& waiting) {
  for (int64_t begin = 0;; begin += kWarmedBytes) {
    const std::shared_ptr<const MappedFile> file = waiting.lock();
    if (file == nullptr || begin >= file->bytes()) return;
    char* const data = const_cast<char*>(file->data()) + begin;
    const int64_t bytes = std::min(kWarmedBytes, file->bytes() - begin);
    madvise(data, bytes, MADV_WILLNEED);
    if (madvise(data, bytes, kPopulate) != 0) Touch(data, bytes);
  }
}

}  // namespace

absl::Status MappedFile::Open(const std::string& path, Access access,
                              std::shared_ptr<MappedFile>* file) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Error(path, "cannot be opened", errno);
  struct stat facts;
  const bool is_known = fstat(descriptor, &facts) == 0;
  int error = is_known ? 0 : errno;
  void* data = nullptr;
  if (is_known && facts.st_size > 0) {
    const int protection = access == kShared ? PROT_READ : PROT_READ | PROT_WRITE;
    data = mmap(nullptr, facts.st_size, protection, access == kShared ? MAP_SHARED : MAP_PRIVATE,
                descriptor, 0);
    error = data == MAP_FAILED ? errno : 0;
  }
  close(descriptor);
  if (error != 0) return Error(path, "cannot be mapped", error);
  file->reset(new MappedFile(static_cast<char*>(data), facts.st_size));
  return absl::OkStatus();
}

MappedFile::~MappedFile() {
  if (bytes_ > 0) munmap(data_, bytes_);
}

void MappedFile::EndWriting() {
  if (bytes_ > 0) mprotect(data_, bytes_, PROT_READ);
}

void Warm(const std::vector<std::weak_ptr<const MappedFile>>& files) {
  for (const auto& file : files) WarmOne(file);
}

void WarmAside(std::vector<std::weak_ptr<const MappedFile>> files) {
  std::thread([files = std::move(files)] {
    LowerThread(kNiceness);
    Warm(files);
  }).detach();
}

}  // namespace graph_opt
