#include "rows/row_kernels.h"

namespace graph_opt {

namespace portable {
extern const RowKernels kRowKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const RowKernels kRowKernels;
}
namespace avx512 {
extern const RowKernels kRowKernels;
}
#endif

namespace {

struct Runnable {
  Runnable() {
    sets[count++] = &portable::kRowKernels;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    if (has_avx2) sets[count++] = &avx2::kRowKernels;
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      sets[count++] = &avx512::kRowKernels;
    }
#endif
  }

  const RowKernels* sets[4] = {};
  int count = 0;
};

const Runnable& Found() {
  static const Runnable runnable;
  return runnable;
}

}  // namespace

const RowKernels& BestRowKernels() { return *Found().sets[Found().count - 1]; }

const RowKernels* const* RunnableRowKernels() { return Found().sets; }

}  // namespace graph_opt
