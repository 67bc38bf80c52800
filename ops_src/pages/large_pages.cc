#include "pages/large_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

namespace graph_opt {
namespace {

constexpr int64_t kCacheLine = 64;

#ifdef __linux__
constexpr int kMoveNow = 25;  // MADV_COLLAPSE, which older headers lack

bool IsForbidden() {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string choices;
  return !std::getline(setting, choices) || choices.find("[never]") != std::string::npos;
}
#endif

}  // namespace

void AskForLargePages(void* data, int64_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);
#endif
}

void* NewInLargePages(int64_t bytes) {
  const bool is_large = bytes >= kLargePageBytes;
  const int64_t page = is_large ? kLargePageBytes : kCacheLine;
  void* memory = nullptr;
  if (posix_memalign(&memory, page, std::max(bytes, kCacheLine)) != 0) throw std::bad_alloc();
  if (is_large) AskForLargePages(memory, bytes / kLargePageBytes * kLargePageBytes);
  return memory;
}

bool CanMoveToLargePages() {
#ifdef __linux__
  static const bool is_forbidden = IsForbidden();
  return !is_forbidden;
#else
  return false;
#endif
}

PageMove MoveToLargePage(void* page) {
#ifdef __linux__
  if (madvise(page, kLargePageBytes, kMoveNow) == 0) return PageMove::kDone;
  const bool may_succeed = errno == ENOMEM || errno == EAGAIN || errno == EBUSY;
  return may_succeed ? PageMove::kNoneLeft : PageMove::kRefused;
#else
  return PageMove::kRefused;
#endif
}

}  // namespace graph_opt
