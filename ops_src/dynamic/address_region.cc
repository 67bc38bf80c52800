#include "dynamic/address_region.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pages/large_pages.h"

namespace graph_opt {
namespace {

absl::Status NoMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for ", bytes, " more bytes: ", std::strerror(errno)));
}

std::atomic<int64_t> reserved_in_all{0};

}  // namespace

constexpr int64_t AddressRegion::kPageBytes;

AddressRegion::~AddressRegion() {
  if (data_ == nullptr) return;
  munmap(data_, bytes_);
  reserved_in_all -= bytes_;
}

bool AddressRegion::Reserve(int64_t bytes) {
  void* const data =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<char*>(data);
  bytes_ = bytes;
  reserved_in_all += bytes;
  return true;
}

int64_t AddressRegion::ReservedInAll() { return reserved_in_all; }

absl::Status AddressRegion::Commit(int64_t begin, int64_t end) {
  if (mprotect(data_ + begin, end - begin, PROT_READ | PROT_WRITE) != 0) {
    return NoMemory(end - begin);
  }
  // A large page takes memory as a whole, so regions begin with small ones, and have no more than
  // as much of what may not be used yet.
  if (begin >= kLargePageBytes && end - begin <= begin)
    AskForLargePages(data_ + begin, end - begin);
  return absl::OkStatus();
}

absl::Status AddressRegion::Renew(int64_t begin, int64_t end) {
  void* const data = mmap(data_ + begin, end - begin, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return data == MAP_FAILED ? NoMemory(end - begin) : absl::OkStatus();
}

void AddressRegion::GiveBack(int64_t begin, int64_t end) {
  if (begin < end) madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

void AddressRegion::Swap(AddressRegion* other) {
  std::swap(data_, other->data_);
  std::swap(bytes_, other->bytes_);
}

}  // namespace graph_opt
