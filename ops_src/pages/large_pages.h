// Pages of 2 MB where the system gives 4 KB by default. Rows are read at random, so that in small
// pages most reads also wait for page tables, twice over in a virtual machine.
#ifndef GRAPH_OPT_PAGES_LARGE_PAGES_H_
#define GRAPH_OPT_PAGES_LARGE_PAGES_H_

#include <cstdint>

namespace graph_opt {

constexpr int64_t kLargePageBytes = int64_t{2} << 20;

// Asks for large pages for memory that has not been touched yet. The system may have none to give.
void AskForLargePages(void* data, int64_t bytes);

// The same for new memory of posix_memalign that begins on a large page if it is as large as one,
// and on a cache line otherwise. Freed by std::free. Throws std::bad_alloc.
void* NewInLargePages(int64_t bytes);

// Whether memory in use can be moved to large pages: since Linux 6.1, unless the administrator has
// set /sys/kernel/mm/transparent_hugepage/enabled to "never".
bool CanMoveToLargePages();

enum class PageMove {
  kDone,
  kNoneLeft,  // the system has no large page to give, and may have one later
  kRefused,   // the page is not all mapped in one way, or may not be large
};

// Moves the page of 2 MB at this address, a multiple of that, whatever parts of it are in use.
// Other threads may read and write it meanwhile. Takes milliseconds, or a microsecond if it has
// been done.
PageMove MoveToLargePage(void* page);

}  // namespace graph_opt

#endif  // GRAPH_OPT_PAGES_LARGE_PAGES_H_
